// Exact sums in vectors of doubles. Included once per target, after simd.inl, inside that target's
// namespace. docs/exact.md has the proof.
//
// A double that starts at 1.5 2^k and to which numbers below 2^k in sum are added takes from each
// what is a multiple of its last place, 2^(k - 52), and leaves the rest, without an error (Rump,
// Ogita and Oishi, SIAM J. Sci. Comput. 31(1), 2008; Demmel, Ahrens and Nguyen, ACM TOMS 46(3),
// 2020). What the first one leaves goes to a second one further down, and so on; each is a level.
// What a level took is the difference of its bits, an integer. Whether the first level was left,
// and whether the last one leaves nothing, is seen on the way: a block of elements for which that
// fails is done again with other levels or, one by one, in integers.

#include "exact_any.inl"

/// A term as doubles whose sum it is.
template <exact::term What, class T>
struct exact_source {
  using V = simd::vec<double>;
  using enum exact::term;
  static constexpr bool wide = std::is_same_v<T, double>;
  static constexpr int digits = exact::range<T>::mantissa + 1;
  static constexpr int parts = What == squared_difference ? (digits == 11 ? 2
                                                             : wide       ? 6
                                                                          : 3)
                               : What == difference       ? (digits == 11 ? 1 : 2)
                               : exact::degree(What) == 2 ? (wide ? 2 : 1)
                                                          : 1;
  /// No part has more significant bits.
  static constexpr int precision = parts > 1 || What == difference ? 53
                                                                   : exact::degree(What) * digits;
  /// All terms are below 2^high, if one level takes any finite one.
  static constexpr bool one_level = digits == 11 && exact::degree(What) == 1;
  static constexpr int high = exact::range<T>::high + (What == difference);

  /// `bad` is not all zeros where the parts are not exact.
  BITFOLD_INLINE static void get(const T* px, const T* py, V (&v)[parts], V& bad) {
    namespace hn = simd::hn;
    const V x = simd::load<double>(px);
    if constexpr (What == element) {
      v[0] = x;
    } else if constexpr (What == number) {
      v[0] = hn::IfThenZeroElse(hn::IsNaN(x), x);
    } else if constexpr (What == presence) {
      v[0] = hn::IfThenZeroElse(hn::IsNaN(x), hn::Set(simd::tag<double>(), 1.0));
    } else if constexpr (What == magnitude) {
      v[0] = hn::Abs(x);
    } else if constexpr (What == square) {
      multiply(x, x, v, 0, bad);
    } else {
      const V y = simd::load<double>(py);
      if constexpr (What == product) {
        multiply(x, y, v, 0, bad);
      } else if constexpr (What == difference) {
        if constexpr (parts == 1) {
          v[0] = hn::Abs(hn::Sub(x, y));
        } else {
          const auto d = arith::two_sum(x, hn::Neg(y));
          const V sign = hn::And(d.sum, hn::Set(simd::tag<double>(), -0.0));
          v[0] = hn::Xor(d.sum, sign);
          v[1] = hn::Xor(d.error, sign);
        }
      } else if constexpr (digits == 11) {
        const V d = hn::Sub(x, y);
        const auto p = arith::two_prod(d, d);
        v[0] = p.sum;
        v[1] = p.error;
      } else {
        multiply(x, x, v, 0, bad);
        multiply(y, y, v, parts / 3, bad);
        multiply(hn::Add(x, x), hn::Neg(y), v, 2 * (parts / 3), bad);
      }
    }
  }

 private:
  BITFOLD_INLINE static void multiply(V x, V y, V (&v)[parts], int at, V& bad) {
    namespace hn = simd::hn;
    const simd::tag<double> d;
    if constexpr (!wide) {
      v[at] = hn::Mul(x, y);
    } else {
      const auto p = arith::two_prod(x, y);
      v[at] = p.sum;
      v[at + 1] = p.error;
      // The error has bits down to 2^-105 of the product, which must not underflow.
      const auto small = hn::Lt(hn::Abs(p.sum), hn::Set(d, 0x1p-960));
      const auto zero = hn::Zero(d);
      const auto nonzero = hn::And(hn::Ne(x, zero), hn::Ne(y, zero));
      bad = hn::Or(bad, hn::VecFromMask(d, hn::And(small, nonzero)));
    }
  }
};

/// Sums in doubles by plain additions (double_sums).
template <class T>
class plain_sums {
  using V = simd::vec<double>;
  static constexpr std::size_t width = static_cast<std::size_t>(simd::width<double>);
  static constexpr std::size_t beside = 4;  // vectors that add by themselves
  static constexpr std::size_t parts = sizeof(T) == 8 ? 2 : 1;
  struct state {
    V part[parts];
  };

 public:
  static constexpr double_sums all() { return {parts, of_rows, add<false>, add<true>}; }

 private:
  static void of_rows(const element_row* rows, std::size_t count, double* sums) {
    namespace hn = simd::hn;
    for (std::size_t k = 0; k < count; ++k) {
      const state s = of_row(static_cast<const T*>(rows[k].x), rows[k].n);
      for (std::size_t p = 0; p < parts; ++p)
        sums[p * count + k] = hn::GetLane(hn::SumOfLanes(simd::tag<double>(), s.part[p]));
    }
  }

  template <bool OrLose>
  static void add(const void* data, const std::ptrdiff_t* rows, std::size_t n,
                  std::size_t neighbours, const double* from, double* to) {
    namespace hn = simd::hn;
    const T* x = static_cast<const T*>(data);
    const auto run = [&]<std::size_t Vectors>(std::integral_constant<std::size_t, Vectors>,
                                              std::size_t at) BITFOLD_LAMBDA {
      const simd::tag<double> d;
      state s[Vectors];
      BITFOLD_UNROLL
      for (std::size_t i = 0; i < Vectors * parts; ++i)
        s[i / parts].part[i % parts] =
            hn::LoadU(d, from + i % parts * neighbours + at + i / parts * width);
      for (std::size_t i = 0; i < n; ++i) BITFOLD_UNROLL
      for (std::size_t k = 0; k < Vectors; ++k)
        add_to<OrLose>(s[k], simd::load<double>(x + rows[i] + at + k * width));
      BITFOLD_UNROLL
      for (std::size_t i = 0; i < Vectors * parts; ++i)
        hn::StoreU(s[i / parts].part[i % parts], d,
                   to + i % parts * neighbours + at + i / parts * width);
    };
    std::size_t c = 0;
    for (; c + beside * width <= neighbours; c += beside * width)
      run(std::integral_constant<std::size_t, beside>(), c);
    for (; c < neighbours; c += width)  // the last vector may share sums with the one before
      run(std::integral_constant<std::size_t, 1>(), std::min(c, neighbours - width));
  }

  BITFOLD_INLINE static state of_row(const T* x, std::size_t n) {
    namespace hn = simd::hn;
    const V none = arith::neutral(V{});
    state s[beside];
    BITFOLD_UNROLL
    for (std::size_t i = 0; i < beside * parts; ++i) s[i / parts].part[i % parts] = none;
    std::size_t i = 0;
    for (; i + beside * width <= n; i += beside * width) BITFOLD_UNROLL
    for (std::size_t k = 0; k < beside; ++k) add_to(s[k], simd::load<double>(x + i + k * width));
    for (; i + width <= n; i += width) add_to(s[0], simd::load<double>(x + i));
    if (i < n)
      add_to(s[1], n < width ? simd::load_first<double>(x, static_cast<int>(n))
                             : simd::first_n_of(static_cast<int>(i + width - n), none,
                                                simd::load<double>(x + n - width)));
    BITFOLD_UNROLL
    for (std::size_t p = 0; p < parts; ++p)
      s[0].part[p] =
          hn::Add(hn::Add(s[0].part[p], s[1].part[p]), hn::Add(s[2].part[p], s[3].part[p]));
    return s[0];
  }

  template <bool OrLose = false>
  BITFOLD_INLINE static void add_to(state& s, V x) {
    namespace hn = simd::hn;
    const simd::tag<double> d;
    state of_x{x};
    if constexpr (parts == 2) {
      const simd::tag<std::uint64_t> bits;
      of_x.part[0] =
          hn::BitCast(d, hn::And(hn::BitCast(bits, x), hn::Set(bits, ~std::uint64_t{0} << 26)));
      of_x.part[1] = hn::Sub(x, of_x.part[0]);
    }
    auto exact = hn::Eq(x, x);
    BITFOLD_UNROLL
    for (std::size_t p = 0; p < parts; ++p) {
      if constexpr (OrLose) {
        const auto both = arith::two_sum(s.part[p], of_x.part[p]);
        s.part[p] = both.sum;
        exact = hn::And(exact, hn::Eq(both.error, hn::Zero(d)));
      } else {
        s.part[p] = hn::Add(s.part[p], of_x.part[p]);
      }
    }
    if constexpr (OrLose) BITFOLD_UNROLL
    for (V& part : s.part) part = hn::IfThenElse(exact, part, hn::NaN(d));
  }
};

template <exact::term What, class T>
class exact_adder {
  using V = simd::vec<double>;
  using I = simd::vec<std::int64_t>;
  using U = simd::vec<std::uint64_t>;
  using source = exact_source<What, T>;
  using total = exact::sum_of<T, What>;
  static constexpr int parts = source::parts;
  static constexpr std::size_t width = static_cast<std::size_t>(simd::width<double>);
  static constexpr int beside = 4;     // vectors that add by themselves
  static constexpr int log2_rows = 6;  // 2^this elements for each of them in a block
  static constexpr std::size_t block = (beside << log2_rows) * width;
  static constexpr int headroom = log2_rows + (parts > 4 ? 3 : parts > 2 ? 2 : parts - 1);
  static constexpr bool narrow = source::precision <= 24;
  static constexpr int most_levels = narrow ? 4 : 8, first_levels = narrow ? 1 : 2;
  static constexpr int anything = most_levels + 1;   // instead of a number of levels
  static constexpr int longest_hold = (1 << 8) - 1;  // blocks
  static constexpr int most_blocks = 1 << 8;         // until taken_ overflows: 2^53 a block

 public:
  static void add(total& s, const T* x, const T* y, std::size_t n) {
    if (n <= 16) return add_anything<What>(s, x, y, n);
    exact_adder a(s);
    std::size_t waiting = 0;  // elements before the block at i that no levels took
    for (std::size_t i = 0; i < n; i += block) {
      const std::size_t here = std::min(block, n - i);
      if (!a.add_block(x + i, y ? y + i : y, here)) {
        waiting += here;
        if (i + here < n) continue;
        i += here;
      }
      if (waiting) add_anything<What>(s, x + i - waiting, y ? y + i - waiting : y, waiting);
      waiting = 0;
    }
    a.flush();
  }

  static constexpr double_sums in_doubles = plain_sums<T>::all();

 private:
  explicit exact_adder(total& s) : s_(s) {
    if constexpr (source::one_level) anchor(source::high - 1);
  }

  // What a block has, for the choice of levels.
  struct extent {
    bool good;        ///< finite, and its parts exact
    int top, lowest;  ///< all parts are below 2^(top + 1), and multiples of 2^lowest
  };

  // Adds a block, or says that it has to be added as anything.
  bool add_block(const T* x, const T* y, std::size_t n) {
    if (hold_ > 0) {
      --hold_;
    } else {
      levels_ = first_levels;
      hard_ /= 2;
    }
    if (levels_ != anything && anchored_ && attempt(levels_, x, y, n)) return true;
    if (levels_ != anything && !source::one_level) {
      const extent e = measure(x, y, n);
      levels_ = anything;
      if (e.good && anchor(e.top)) {
        for (int l = most_levels; l >= 1 && top_[l - 1] - 52 <= e.lowest; --l) levels_ = l;
        levels_ = std::max(levels_, first_levels);
      }
      if (levels_ > first_levels) {  // likely not the only such block
        hard_ = std::min(2 * hard_ + 1, longest_hold);
        hold_ = hard_;
      }
      if (levels_ != anything && attempt(levels_, x, y, n)) return true;
    }
    return false;
  }

  bool attempt(int levels, const T* x, const T* y, std::size_t n) {
    if (levels == 1 && !source::one_level && !bitfold::detail::inexact_flag::works()) levels = 2;
    bool took = false, all = false;
    const auto with = [&]<int Levels>(std::integral_constant<int, Levels>) BITFOLD_LAMBDA {
      if constexpr (Levels == 1 || !source::one_level) all = try_levels<Levels>(x, y, n, took);
    };
    if (levels == 1)
      with(std::integral_constant<int, 1>());
    else if (levels == 2)
      with(std::integral_constant<int, 2>());
    else if (levels == 3)
      with(std::integral_constant<int, 3>());
    else if (levels == 4)
      with(std::integral_constant<int, 4>());
    else
      with(std::integral_constant<int, most_levels>());
    if (!all) return false;
    if (took) s_.flags |= exact::something_else;
    if (!(s_.flags & exact::something_else)) {  // zeros: of which sign?
      total zeros;
      for (std::size_t i = 0; i < n && !(zeros.flags & exact::something_else); ++i)
        exact::deposit<What>(zeros, element_at(x, i), y ? element_at(y, i) : T{});
      s_.flags |= zeros.flags;
    }
    if (++blocks_ == most_blocks) flush();
    return true;
  }

  // Enough work lies between two lines of a cache that the hardware's own prefetching falls behind.
  BITFOLD_INLINE static void prefetch(const T* x, const T* y) {
    constexpr std::size_t ahead = 2048;  // bytes
    __builtin_prefetch(reinterpret_cast<const char*>(x) + ahead);
    if constexpr (exact::inputs(What) == 2)
      __builtin_prefetch(reinterpret_cast<const char*>(y) + ahead);
  }

  // Calls f(parts, bad, i) for each vector of a block, the i-th; what is missing in the last one is
  // +0.
  template <class F>
  BITFOLD_INLINE static void for_each_vector(const T* x, const T* y, std::size_t n, V& bad, F f) {
    V v[parts];
    const auto second = [=](std::size_t at)
                            BITFOLD_LAMBDA { return exact::inputs(What) == 2 ? y + at : y; };
    std::size_t i = 0;
    for (; i + beside * width <= n; i += beside * width) BITFOLD_UNROLL
    for (int k = 0; k < beside; ++k) {
      const std::size_t at = i + static_cast<std::size_t>(k) * width;
      if (k * static_cast<int>(width * sizeof(T)) % 64 == 0) prefetch(x + at, second(at));
      source::get(x + at, second(at), v, bad);
      f(v, k);
    }
    for (; i + width <= n; i += width) {
      source::get(x + i, second(i), v, bad);
      f(v, 0);
    }
    if (i < n) {
      T last_x[width] = {}, last_y[width] = {};
      if constexpr (What == exact::term::presence)
        std::memset(last_x, 0xff, sizeof last_x);  // NaNs are not there
      std::memcpy(last_x, x + i, (n - i) * sizeof(T));
      if constexpr (exact::inputs(What) == 2) std::memcpy(last_y, y + i, (n - i) * sizeof(T));
      source::get(last_x, last_y, v, bad);
      f(v, 0);
    }
  }

  template <int Levels>
  BITFOLD_LEAF bool try_levels(const T* x, const T* y, std::size_t n, bool& took) {
    namespace hn = simd::hn;
    const simd::tag<double> d;
    const simd::tag<std::uint64_t> du;
    const simd::tag<std::int64_t> di;
    // No other additions pass the flag: in_order() has theirs between.
    constexpr bool by_flag = Levels == 1 && !source::one_level;
    if constexpr (by_flag) bitfold::detail::inexact_flag::lower();
    V start[Levels], s[Levels][beside];
    BITFOLD_UNROLL
    for (int l = 0; l < Levels; ++l) {
      start[l] = hn::Set(d, start_[l]);
      BITFOLD_UNROLL
      for (int k = 0; k < beside; ++k) {
        s[l][k] = start[l];
        if constexpr (by_flag) s[l][k] = simd::in_order(s[l][k]);
      }
    }
    V bad = hn::Zero(d);
    U left = hn::Zero(du), moved = hn::Zero(du);
    for_each_vector(x, y, n, bad, [&](V(&v)[parts], int k) BITFOLD_LAMBDA {
      BITFOLD_UNROLL
      for (int p = 0; p < parts; ++p) {
        V r = v[p];
        BITFOLD_UNROLL
        for (int l = 0; l < Levels; ++l) {
          const V next = hn::Add(s[l][k], r);
          if constexpr (Levels > 1) {
            if (l == 0) moved = hn::Or(moved, hn::BitCast(du, hn::Xor(next, start[0])));
            const V taken = hn::Sub(next, s[l][k]);
            if (l + 1 < Levels)
              r = hn::Sub(r, taken);
            else
              left = hn::Or(left, hn::BitCast(du, hn::Xor(r, taken)));
          }
          s[l][k] = next;
        }
      }
    });
    // In the first level's binade at every step (one that is not finite is never again), and
    // nothing left but signs of zeros. One level alone may leave it, and come back: that leaves
    // nothing if nothing was rounded.
    BITFOLD_UNROLL
    for (int k = 0; k < beside; ++k) {
      if constexpr (by_flag) s[0][k] = simd::in_order(s[0][k]);
      moved = hn::Or(moved, hn::BitCast(du, hn::Xor(s[0][k], start[0])));
    }
    if constexpr (by_flag)
      if (bitfold::detail::inexact_flag::is_up()) return false;
    const U wrong =
        hn::Or(hn::BitCast(du, bad), hn::Or(hn::And(moved, hn::Set(du, 0xfff0000000000000u)),
                                            hn::And(left, hn::Set(du, 0x7fffffffffffffffu))));
    if (!hn::AllTrue(du, hn::Eq(wrong, hn::Zero(du)))) return false;
    I any = hn::Zero(di);
    BITFOLD_UNROLL
    for (int l = 0; l < Levels; ++l) {
      I sum = hn::Load(di, taken_[l]);
      BITFOLD_UNROLL
      for (int k = 0; k < beside; ++k) {
        const I part = hn::Sub(hn::BitCast(di, s[l][k]), hn::BitCast(di, start[l]));
        any = hn::Or(any, part);
        sum = hn::Add(sum, part);
      }
      hn::Store(sum, di, taken_[l]);
    }
    took = !hn::AllTrue(di, hn::Eq(any, hn::Zero(di)));
    return true;
  }

  extent measure(const T* x, const T* y, std::size_t n) const {
    namespace hn = simd::hn;
    const simd::tag<double> d;
    const V infinite = hn::Set(d, exact::infinity), zero = hn::Zero(d);
    V bad = zero, largest = zero, smallest = infinite;
    for_each_vector(x, y, n, bad, [&](V(&v)[parts], int) BITFOLD_LAMBDA {
      BITFOLD_UNROLL
      for (int p = 0; p < parts; ++p) {
        const V m = hn::Abs(v[p]);
        bad = hn::Or(bad, hn::Sub(m, m));  // a NaN if it is not finite, else +0
        largest = hn::Max(largest, m);
        smallest = hn::Min(smallest, hn::IfThenElse(hn::Eq(m, zero), infinite, m));
      }
    });
    const simd::tag<std::uint64_t> du;
    if (!hn::AllTrue(du, hn::Eq(hn::BitCast(du, bad), hn::Zero(du)))) return {false, 0, 0};
    const auto exponent = [](double m) {
      return static_cast<int>(bitfold::arith::bit_cast<std::uint64_t>(m) >> 52) - 1023;
    };
    return {true, exponent(hn::GetLane(hn::MaxOfLanes(d, largest))),
            std::max(exponent(hn::GetLane(hn::MinOfLanes(d, smallest))), -1022) -
                (source::precision - 1)};
  }

  // Sets the levels for parts below 2^(top + 1); says whether there are such.
  bool anchor(int top) {
    flush();
    // 2^headroom of them in sum; then those that a level leaves, halves of its last place at most.
    for (int l = 0, k = top + 2 + headroom; l < most_levels; ++l, k += headroom - 51) {
      // Nothing is left below the last place of what is summed.
      top_[l] = std::max({k, total::low + 52, -1022});
      if (top_[l] > 1023) return anchored_ = false;
      start_[l] =
          1.5 * bitfold::arith::bit_cast<double>(static_cast<std::uint64_t>(top_[l] + 1023) << 52);
    }
    return anchored_ = true;
  }

  void flush() {
    if (blocks_ == 0) return;
    for (int l = 0; l < most_levels; ++l) {
      __extension__ typedef __int128 signed_wide;
      signed_wide sum = 0;
      for (auto& lane : taken_[l]) {
        sum += lane;
        lane = 0;
      }
      if (sum)
        s_.deposit(static_cast<exact::wide>(sum < 0 ? -sum : sum), top_[l] - 52 - total::low,
                   sum < 0);
    }
    blocks_ = 0;
  }

  total& s_;
  bool anchored_ = false;
  int levels_ = first_levels;
  int hold_ = 0, hard_ = 0;  // blocks to go on with levels_; how many it was the last time
  int blocks_ = 0;           // in taken_
  int top_[most_levels];
  double start_[most_levels];                                // 1.5 2^top
  alignas(64) std::int64_t taken_[most_levels][width] = {};  // in units of 2^(top - 52)
};

inline exact_kernels find(const exact_terms& t) { return find_exact_kernels<exact_adder>(t); }
