// Plain versions of the functions of rocrepro.h, for programs that are printed in issues. An issue has those that its
// program uses: each part begins with `//: NAME`, and brings the parts that it mentions. `NAME of KIND` replaces `NAME`
// in a program that uses it for values of that kind alone.

// The checks of this program: each prints a line, and a wrong one makes it exit with status 1.
namespace rocrepro {
[[maybe_unused]] static const int unbuffered = std::setvbuf(stdout, nullptr, _IONBF, 0);  // a crash loses no output

//: failed_checks
static std::string failed_checks;

//: report_check
inline bool report_check(const std::string &name, bool right, const std::string &text) {
  if (!right) failed_checks += " " + name;
  std::printf("%s: %s\n", name.c_str(), right ? "ok" : text.c_str());
  return right;
}

//: parameter
inline std::string parameter(const std::string &name, const char *otherwise = "") {
  static const std::map<std::string, std::string> values = {};  // of the failing run
  return values.count(name) ? values.at(name) : otherwise;
}

//: phase
inline void phase(const std::string &name) { std::printf("phase: %s\n", name.c_str()); }

//: is_nan
template <class T> bool is_nan(const T &value) { return value != value; }

//: agree
template <class T> bool agree(const T &a, const T &b) { return a == b || (a != a && b != b); }

//: shown
template <class T> std::string shown(const T &value) {
  std::ostringstream text;
  text << std::setprecision(17) << +value;
  return text.str();
}

//: compare
template <class T, class Agree>
bool compare(const std::string &name, const std::vector<T> &got, const std::vector<T> &expected, Agree agrees) {
  const auto [a, b] = std::mismatch(got.begin(), got.end(), expected.begin(), expected.end(), agrees);
  const std::string is = a == got.end() ? "missing" : shown<T>(*a), right = b == expected.end() ? "nothing" : shown<T>(*b);
  return report_check(name, !got.empty() && a == got.end() && b == expected.end(),
                      "got[" + std::to_string(a - got.begin()) + "] is " + is + ", expected " + right);
}

//: equal
template <class T>
bool equal(const std::string &name, const std::vector<T> &got, const std::vector<T> &expected, const std::vector<T> & = {}) {
  return compare(name, got, expected, [](const T &a, const T &b) { return agree(a, b); });
}
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> bool equal(const std::string &name, T got, T expected) {
  return report_check(name, agree(got, expected), "is " + shown(got) + ", expected " + shown(expected));
}

//: equal of numbers
template <class T> bool equal(const std::string &name, T got, T expected) {
  return report_check(name, got == expected, "is " + std::to_string(got) + ", expected " + std::to_string(expected));
}

//: ulps
// Returns how many floating-point numbers of the type lie between two.
template <class T> uint64_t ulps(T got, T expected) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  if (got != got || expected != expected) return got != got && expected != expected ? 0 : UINT64_MAX;
  auto place = [](T value) {
    Bits bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits >= 0 ? int64_t(bits) : -int64_t(bits & std::numeric_limits<Bits>::max());
  };
  int64_t a = place(got), b = place(expected);
  if (std::isinf(got) || std::isinf(expected)) return a == b ? 0 : UINT64_MAX;
  return a > b ? uint64_t(a) - uint64_t(b) : uint64_t(b) - uint64_t(a);
}

//: close
template <class T>
bool close(const std::string &name, const std::vector<T> &got, const std::vector<T> &expected, uint64_t most,
           const std::vector<T> & = {}) {
  return compare(name, got, expected, [most](const T &a, const T &b) { return ulps(a, b) <= most; });
}

//: same
template <class T> bool same(const std::string &name, const std::vector<T> &one, const std::vector<T> &other) {
  return compare(name, one, other, [](const T &a, const T &b) { return agree(a, b); });
}

//: classify
template <class T>
std::string classify(const std::vector<T> &got, const std::vector<size_t> &at, const std::vector<T> &before) {
  bool nan = true, zero = true, stale = before.size() == got.size(), changes = false;
  for (size_t i : at) {
    nan &= got[i] != got[i];
    zero &= got[i] == T(0);
    stale = stale && agree(got[i], before[i]);
    changes = changes || (before.size() == got.size() && before[i] != T(0));
  }
  return nan ? "nan" : stale && changes ? "stale" : zero ? "zero" : "other";
}

//: holds
inline bool holds(const std::string &name, bool truth, const std::string &text = "it does not hold") {
  return report_check(name, truth, text);
}

//: answer_name
template <class T> std::string answer_name(T answer) {
  if constexpr (std::is_same_v<T, hipError_t>) return hipGetErrorName(answer);
  else return std::to_string(static_cast<long long>(answer));
}

//: status
template <class T> bool status(const std::string &name, T got, T expected = T(0)) {
  return report_check(name, got == expected, "returned " + answer_name(got) + ", expected " + answer_name(expected));
}

//: status of hip
inline bool status(const std::string &name, hipError_t got, hipError_t expected = hipSuccess) {
  return report_check(name, got == expected, std::string("returned ") + hipGetErrorName(got) + ", expected " + hipGetErrorName(expected));
}

//: given_back
inline bool given_back(const std::string &name, size_t before, size_t after) {
  return report_check(name, before == after, std::to_string(before) + " before, " + std::to_string(after) + " after");
}

//: must
template <class T> void must(T got, const std::string &what = "HIP", int line = __builtin_LINE()) {
  if (got == T(0)) return;
  std::printf("line %d: %s returns %s\n", line, what.c_str(), answer_name(got).c_str());
  std::exit(1);
}

//: must of hip
inline void must(hipError_t got, const char *what = "HIP", int line = __builtin_LINE()) {
  if (got == hipSuccess) return;
  std::printf("line %d: %s returns %s\n", line, what, hipGetErrorName(got));
  std::exit(1);
}

//: told_of_fault
inline void told_of_fault() { std::printf("a call reported the fault of the device\n"); }

//: skip
[[noreturn]] inline void skip(const std::string &why) {
  std::printf("skipped: %s\n", why.c_str());
  std::exit(0);
}

//: done
inline int done() {
  std::printf("%s%s\n", failed_checks.empty() ? "all checks ok" : "FAILED:", failed_checks.c_str());
  return failed_checks.empty() ? 0 : 1;
}

//: end
}  // namespace rocrepro
