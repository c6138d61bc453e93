// Exact sums of anything at all, in plain C++. Included once per target, inside its namespace.

template <class T>
BITFOLD_INLINE T element_at(const T* p, std::size_t i) {
  T x;
  std::memcpy(&x, p + i, sizeof x);  // the data may be aligned to nothing
  return x;
}

/// x as a term of one element has it: its bits.
template <exact::term What, class T>
BITFOLD_INLINE auto element_bits(const T* x, std::size_t i) {
  using bits = typename exact::range<T>::bits;
  constexpr bits sign = bits{1} << (exact::range<T>::width - 1);
  constexpr bits infinity =
      static_cast<bits>((sign - 1) ^ ((bits{1} << exact::range<T>::mantissa) - 1));
  bits b = element_at(reinterpret_cast<const bits*>(x), i);
  const bool is_nan = static_cast<bits>(b & (sign - 1)) > infinity;
  if constexpr (What == exact::term::presence)
    b = is_nan ? bits{0}
               : static_cast<bits>(static_cast<bits>(exact::range<T>::bias)
                                   << exact::range<T>::mantissa);
  if constexpr (What == exact::term::magnitude) b &= static_cast<bits>(~sign);
  if constexpr (What == exact::term::number)
    if (is_nan) b = 0;
  return b;
}

/// What the sum of n doubles says besides its value; bits_at(i) are those of the i-th.
template <class Bits>
BITFOLD_INLINE unsigned flags_of_doubles(std::size_t n, Bits bits_at) {
  constexpr exact::word sign = exact::word{1} << 63,
                        last = exact::word{1} << exact::range<double>::mantissa,
                        infinity = sign - last;
  exact::word other = 0, special = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const exact::word x = bits_at(i);
    other |= x ^ sign;
    special |= (x & ~sign) + last;  // whose sign is up where the exponent is all ones
  }
  unsigned flags = other ? exact::something_else : exact::a_minus_zero;
  if ((special & sign) == 0) return flags;
  for (std::size_t i = 0; i < n && !(flags & exact::a_nan); ++i) {
    const exact::word x = bits_at(i), magnitude = x & ~sign;
    if (magnitude >= infinity)
      flags |= magnitude > infinity ? exact::a_nan
               : x == infinity      ? exact::plus_infinity
                                    : exact::minus_infinity;
  }
  return flags;
}

/// Adds as many of n elements as it is worth to add by their exponents, and says how many; terms of
/// one element.
template <exact::term What, class T>
std::size_t add_by_exponent(cells<T, 1>& to, const T* x, std::size_t n) {
  const auto add_all = [&](auto& e) BITFOLD_LAMBDA {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < n; ++i) e.add(element_bits<What>(x, i));
  };
  if constexpr (std::is_same_v<T, double>) {
    const auto bits_at = [x](std::size_t i) BITFOLD_LAMBDA { return element_bits<What>(x, i); };
    if (n < 256) return 0;
    if (n < cells_of_doubles<3>::max) {
      cells_of_doubles<3> e;
      add_all(e);
      e.add_to(to);
      to.flags |= flags_of_doubles(n, bits_at);
    } else {
      n = std::min(n, cells_of_doubles<0>::max);
      cells_of_doubles<0> e;
      add_all(e);
      to.flags |=
          e.add_to(to) && !e.has_specials() ? exact::something_else : flags_of_doubles(n, bits_at);
    }
    return n;
  } else {
    if (n < 8 * cells_by_exponent<T>::count) return 0;
    n = std::min(n, cells_by_exponent<T>::max);
    cells_by_exponent<T> e;
    add_all(e);
    e.add_to(to);
    return n;
  }
}

template <exact::term What, class T>
void add_anything(exact::sum_of<T, What>& s, const T* x, const T* y, std::size_t n) {
  const auto add = [&](auto& to, std::size_t i) BITFOLD_LAMBDA {
    exact::deposit<What>(to, element_at(x, i), exact::inputs(What) == 2 ? element_at(y, i) : T{});
  };
  if (n <= 16) {
    for (std::size_t i = 0; i < n; ++i) add(s, i);
    return;
  }
  for (std::size_t from = 0; from < n;) {
    const std::size_t end = std::min(n, from + (std::size_t{1} << 28));
    cells<T, exact::degree(What)> c;
    if constexpr (exact::degree(What) == 1 && exact::inputs(What) == 1)
      while (const std::size_t done = add_by_exponent<What>(c, x + from, end - from)) from += done;
    for (; from < end; ++from) add(c, from);
    c.add_to(s);
  }
}

// ---- Integers: the sums of lower and of upper halves.

template <exact::term What, class T>
BITFOLD_INLINE auto integer_term(T x, T y) {
  using W = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  using U = std::uint64_t;
  __extension__ typedef __int128 signed_wide;
  using P = std::conditional_t<sizeof(T) < 8, W,
                               std::conditional_t<std::is_signed_v<T>, signed_wide, exact::wide>>;
  const U difference =
      x < y ? static_cast<U>(y) - static_cast<U>(x) : static_cast<U>(x) - static_cast<U>(y);
  if constexpr (What == exact::term::presence)
    return W{1};
  else if constexpr (What == exact::term::magnitude)
    return x < T{0} ? 0 - static_cast<U>(x) : static_cast<U>(x);
  else if constexpr (What == exact::term::difference)
    return difference;
  else if constexpr (What == exact::term::square)
    return static_cast<P>(x) * static_cast<P>(x);
  else if constexpr (What == exact::term::product)
    return static_cast<P>(x) * static_cast<P>(y);
  else if constexpr (What == exact::term::squared_difference)
    return std::conditional_t<sizeof(T) < 8, U, exact::wide>{difference} * difference;
  else
    return static_cast<W>(x);
}

template <exact::term What, class T>
void add_integers(exact::sum_of<T, What>& s, const T* x, const T* y, std::size_t n) {
  using W = decltype(integer_term<What>(T{}, T{}));
  constexpr int half = 4 * sizeof(W);
  constexpr std::size_t max = std::size_t{1} << 30;
  for (std::size_t from = 0; from < n;) {
    const std::size_t end = std::min(n, from + max);
    std::conditional_t<sizeof(W) == 8, std::uint64_t, exact::wide> low = 0;
    W high = 0;
    for (; from < end; ++from) {
      const W v = integer_term<What>(element_at(x, from),
                                     exact::inputs(What) == 2 ? element_at(y, from) : T{});
      low += static_cast<std::conditional_t<sizeof(W) == 8, std::uint32_t, std::uint64_t>>(v);
      high += v >> half;
    }
    s.deposit(low, 0, false);
    const bool negative = high < W{0};
    s.deposit(negative ? 0 - static_cast<exact::wide>(high) : static_cast<exact::wide>(high), half,
              negative);
  }
  s.flags |= exact::something_else;
}

// ---- The kernel of a term and a type; Floats<What, T>::add is that for floats.

template <exact::term What, class T, template <exact::term, class> class Floats>
target add_terms(inputs data, std::size_t n, void* state) {
  auto& s = *static_cast<exact::sum_of<T, What>*>(state);
  const T *x = static_cast<const T*>(data.x), *y = static_cast<const T*>(data.y);
  if (n == 0) return this_target;
  if constexpr (std::is_integral_v<T>)
    add_integers<What>(s, x, y, n);
  else
    Floats<What, T>::add(s, x, y, n);
  return this_target;
}

template <template <exact::term, class> class Floats>
exact_kernels find_exact_kernels(const exact_terms& t) {
  return visit(t.type, [&]<class T>(std::type_identity<T>) {
    return visit(t.what, [](auto what) -> exact_kernels {
      exact_kernels found{add_terms<what, T, Floats>};
      if constexpr (what == exact::term::element && !std::is_integral_v<T>)
        if constexpr (requires { Floats<what, T>::in_doubles; })
          found.in_doubles = Floats<what, T>::in_doubles;
      return found;
    });
  });
}
