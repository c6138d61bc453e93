// What device code uses of the standard library, for the run-time compiler, which has none. The
// names are the standard's own, so that the headers of the algebra are compiled as they are.
#pragma once

#define __extension__

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;
using uintptr_t = unsigned long;

namespace std {

using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;
using size_t = decltype(sizeof(0));
using ptrdiff_t = long;
using nullptr_t = decltype(nullptr);
enum class byte : unsigned char {};

// ---- <type_traits> ------------------------------------------------------------------------------

template <class T, T V>
struct integral_constant {
  static constexpr T value = V;
  using value_type = T;
  using type = integral_constant;
  constexpr operator T() const { return value; }
  constexpr T operator()() const { return value; }
};
template <bool B>
using bool_constant = integral_constant<bool, B>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <class T>
struct type_identity {
  using type = T;
};
template <class T>
using type_identity_t = typename type_identity<T>::type;

template <bool, class T, class>
struct conditional : type_identity<T> {};
template <class T, class U>
struct conditional<false, T, U> : type_identity<U> {};
template <bool B, class T, class U>
using conditional_t = typename conditional<B, T, U>::type;

template <class, class>
inline constexpr bool is_same_v = false;
template <class T>
inline constexpr bool is_same_v<T, T> = true;

template <class T>
struct remove_const : type_identity<T> {};
template <class T>
struct remove_const<const T> : type_identity<T> {};
template <class T>
using remove_const_t = typename remove_const<T>::type;
template <class T>
struct remove_volatile : type_identity<T> {};
template <class T>
struct remove_volatile<volatile T> : type_identity<T> {};
template <class T>
using remove_cv_t = remove_const_t<typename remove_volatile<T>::type>;
template <class T>
struct remove_reference : type_identity<T> {};
template <class T>
struct remove_reference<T&> : type_identity<T> {};
template <class T>
struct remove_reference<T&&> : type_identity<T> {};
template <class T>
using remove_reference_t = typename remove_reference<T>::type;
template <class T>
using remove_cvref_t = remove_cv_t<remove_reference_t<T>>;

template <class T, class... U>
inline constexpr bool is_one_of = (is_same_v<remove_cv_t<T>, U> || ...);
template <class T>
inline constexpr bool is_integral_v =
    is_one_of<T, bool, char, signed char, unsigned char, short, unsigned short, int, unsigned, long,
              unsigned long, long long, unsigned long long>;
template <class T>
inline constexpr bool is_floating_point_v = is_one_of<T, float, double>;
template <class T>
inline constexpr bool is_arithmetic_v = is_integral_v<T> || is_floating_point_v<T>;
template <class T>
inline constexpr bool is_signed_v = [] {
  if constexpr (is_arithmetic_v<T>)
    return static_cast<T>(-1) < static_cast<T>(0);
  else
    return false;
}();
template <class T>
inline constexpr bool is_void_v = is_same_v<remove_cv_t<T>, void>;
template <class T>
inline constexpr bool is_class_v = __is_class(T);
template <class T>
inline constexpr bool is_trivially_copyable_v = __is_trivially_copyable(T);

template <class T>
struct make_unsigned;
template <>
struct make_unsigned<signed char> : type_identity<unsigned char> {};
template <>
struct make_unsigned<unsigned char> : type_identity<unsigned char> {};
template <>
struct make_unsigned<short> : type_identity<unsigned short> {};
template <>
struct make_unsigned<unsigned short> : type_identity<unsigned short> {};
template <>
struct make_unsigned<int> : type_identity<unsigned> {};
template <>
struct make_unsigned<unsigned> : type_identity<unsigned> {};
template <>
struct make_unsigned<long> : type_identity<unsigned long> {};
template <>
struct make_unsigned<unsigned long> : type_identity<unsigned long> {};
template <class T>
using make_unsigned_t = typename make_unsigned<T>::type;

// ---- <utility>, <algorithm>, <bit> --------------------------------------------------------------

template <class T>
T&& declval() noexcept;
template <class T>
constexpr remove_reference_t<T>&& move(T&& x) noexcept {
  return static_cast<remove_reference_t<T>&&>(x);
}
template <class T>
constexpr T&& forward(remove_reference_t<T>& x) noexcept {
  return static_cast<T&&>(x);
}
template <class T>
constexpr const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}
template <class T>
constexpr const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}
template <class T>
constexpr int countl_zero(T x) {
  int zeros = 0;
  for (int i = 8 * static_cast<int>(sizeof(T)) - 1; i >= 0 && !(x >> i & 1); --i) ++zeros;
  return zeros;
}

// ---- <array>, <optional>, <string_view>: tables of names, which device code only passes over ----

template <class T, size_t N>
struct array {
  T elements[N > 0 ? N : 1];
  constexpr T& operator[](size_t i) { return elements[i]; }
  constexpr const T& operator[](size_t i) const { return elements[i]; }
  constexpr size_t size() const { return N; }
  constexpr const T* begin() const { return elements; }
  constexpr const T* end() const { return elements + N; }
};
template <class T, class... More>
array(T, More...) -> array<T, 1 + sizeof...(More)>;

struct nullopt_t {};
inline constexpr nullopt_t nullopt{};
template <class T>
struct optional {
  bool full = false;
  T value{};
  constexpr optional() = default;
  constexpr optional(nullopt_t) {}
  constexpr optional(const T& x) : full(true), value(x) {}
  constexpr explicit operator bool() const { return full; }
  constexpr const T& operator*() const { return value; }
  friend constexpr bool operator==(const optional& a, const T& b) { return a.full && a.value == b; }
};

struct string_view {
  const char* text = "";
  constexpr string_view() = default;
  constexpr string_view(const char* t) : text(t) {}
  friend constexpr bool operator==(string_view a, string_view b) {
    size_t i = 0;
    while (a.text[i] && a.text[i] == b.text[i]) ++i;
    return a.text[i] == b.text[i];
  }
};

// ---- <compare> ----------------------------------------------------------------------------------

struct partial_ordering {
  int value;
  static const partial_ordering less, equivalent, greater, unordered;
};
inline constexpr partial_ordering partial_ordering::less{-1}, partial_ordering::equivalent{0},
    partial_ordering::greater{1}, partial_ordering::unordered{2};

// ---- <limits> -----------------------------------------------------------------------------------

template <class T>
struct numeric_limits {
  static constexpr bool is_integer = true;
  static constexpr bool is_signed = is_signed_v<T>;
  static constexpr int digits = 8 * static_cast<int>(sizeof(T)) - is_signed;
  static constexpr T max() { return static_cast<T>(~make_unsigned_t<T>{} >> is_signed); }
  static constexpr T min() { return is_signed ? static_cast<T>(-max() - 1) : T{}; }
};
template <>
struct numeric_limits<float> {
  static constexpr bool is_integer = false, is_signed = true;
  static constexpr int digits = 24;
  static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000u); }
  static constexpr float quiet_NaN() { return __builtin_bit_cast(float, 0x7fc00000u); }
  static constexpr float max() { return 0x1.fffffep127f; }
  static constexpr float min() { return 0x1p-126f; }
};
template <>
struct numeric_limits<double> {
  static constexpr bool is_integer = false, is_signed = true;
  static constexpr int digits = 53;
  static constexpr double infinity() { return __builtin_bit_cast(double, 0x7ff0000000000000ul); }
  static constexpr double quiet_NaN() { return __builtin_bit_cast(double, 0x7ff8000000000000ul); }
  static constexpr double max() { return 0x1.fffffffffffffp1023; }
  static constexpr double min() { return 0x1p-1022; }
};

}  // namespace std
