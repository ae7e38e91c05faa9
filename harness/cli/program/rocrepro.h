// Functions by which a C++ program reports its phases, its checks and its end to rocrepro.
//
// They need HIP's headers and C++17. If the program is not started by rocrepro, they print the result of each check. A failed
// check does not end the program, so that all checks are reported.
//
//     #include "rocrepro.h"
//     int main() {
//       rocrepro::phase("copy");
//       rocrepro::equal("sum", got, right);
//       return rocrepro::done();
//     }
#pragma once

#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <type_traits>
#include <unistd.h>
#include <vector>

namespace rocrepro {

#ifdef __clang_version__
inline const char *COMPILER = "C++, compiled by clang " __clang_version__;
#else
inline const char *COMPILER = "C++";
#endif

inline int &wrong() {
  static int number = 0;
  return number;
}

inline std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    char escaped[8];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += char(c);
    } else if (c < 0x20 || c > 0x7e) {
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
    } else {
      out += char(c);
    }
  }
  return out + "\"";
}

// Returns a name as one word, because names are parts of signatures.
inline std::string word(const std::string &name) {
  std::string out;
  for (char c : name) out += c == ' ' || c == ':' || c == '\n' || c == '\t' ? '-' : c;
  return out.empty() ? "check" : out;
}

inline void write_line(const std::string &line) {
  const char *file = std::getenv("ROCREPRO_REPORT");
  if (!file) return;
  int opened = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (opened < 0) return;
  // The line is written by one call, so that a crash cannot cut it.
  ssize_t written = write(opened, line.data(), line.size());
  (void)written;
  close(opened);
}

inline void say(const std::string &line) {
  static const bool begun = [] {
    const char *nonce = std::getenv("ROCREPRO_NONCE");
    write_line("{\"say\":\"begin\",\"nonce\":" + quoted(nonce ? nonce : "") +
               ",\"runs_on\":" + quoted(COMPILER) + ",\"pid\":" + std::to_string(getpid()) + "}\n");
    return true;
  }();
  (void)begun;
  write_line(line + "\n");
}

struct Wrong {
  const char *about;
  std::string kind, text;
  std::vector<std::string> details;
};

inline bool told(const std::string &name, int line, const Wrong *bad) {
  static std::map<std::string, std::string> names;
  std::string other = names.emplace(word(name), name).first->second;
  if (other != name) {
    std::fprintf(stderr, "line %d: the checks \"%s\" and \"%s\" have one name, %s\n", line, other.c_str(), name.c_str(),
                 word(name).c_str());
    std::exit(1);
  }
  std::string text = "{\"say\":\"check\",\"name\":" + quoted(word(name)) + ",\"line\":" + std::to_string(line);
  if (bad) {
    wrong()++;
    text += std::string(",\"wrong\":{\"about\":\"") + bad->about + "\"";
    text += ",\"class\":" + quoted(word(bad->kind)) + ",\"text\":" + quoted(bad->text) + ",\"details\":[";
    for (size_t i = 0; i < bad->details.size(); i++) text += (i ? "," : "") + quoted(bad->details[i]);
    text += "]}";
  }
  say(text + "}");
  if (!std::getenv("ROCREPRO_REPORT"))
    std::printf("%s: %s%s\n", name.c_str(), bad ? "WRONG: " : "right", bad ? bad->text.c_str() : "");
  return !bad;
}

// Returns the trial's value of a matrix axis, as text.
inline std::string parameter(const std::string &name, const char *otherwise = "") {
  const char *value = std::getenv(("ROCREPRO_PARAMETER_" + name).c_str());
  return value ? value : otherwise;
}

// Names the next part of the program. A crash or hang in it is reported with this name.
inline void phase(const std::string &name) { say("{\"say\":\"phase\",\"name\":" + quoted(word(name)) + "}"); }

template <class T> bool is_nan(const T &value) { return value != value; }

// Returns true if two values are equal. Two NaNs are equal, and so are zeros of both signs.
template <class T> bool agree(const T &got, const T &right) { return got == right || (is_nan(got) && is_nan(right)); }

// Returns how many numbers of the type lie between two; the largest number if only one of them is NaN or infinite.
template <class T> uint64_t ulps(T got, T right) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "ulps are of float and double");
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  if (is_nan(got) || is_nan(right)) return is_nan(got) && is_nan(right) ? 0 : UINT64_MAX;
  auto place = [](T value) {
    Bits bits;
    std::memcpy(&bits, &value, sizeof bits);
    // Numbers of the same sign are ordered like their bits.
    return bits >= 0 ? int64_t(bits) : -int64_t(bits & (sizeof(T) == 4 ? INT32_MAX : INT64_MAX));
  };
  if (std::isinf(got) || std::isinf(right)) return place(got) == place(right) ? 0 : UINT64_MAX;
  int64_t a = place(got), b = place(right);
  return a > b ? uint64_t(a) - uint64_t(b) : uint64_t(b) - uint64_t(a);
}

template <class T> std::string classify(const std::vector<T> &got, const std::vector<size_t> &at, const std::vector<T> &before) {
  bool nan = true, zero = true, stale = before.size() == got.size(), changes = false;
  for (size_t i : at) {
    nan &= is_nan(got[i]);
    zero &= got[i] == T(0);
    stale = stale && agree(got[i], before[i]);
    changes = changes || (before.size() == got.size() && before[i] != T(0));
  }
  return nan ? "nan" : stale && changes ? "stale" : zero ? "zero" : "other";
}

// Formats a value with enough digits to distinguish any two values of its type.
template <class T>
std::string shown(const T &value) {
  std::ostringstream text;
  text.precision(std::numeric_limits<T>::max_digits10);
  // Characters are shown as numbers.
  if constexpr (std::is_integral_v<T>) text << +value;
  else text << value;
  return text.str();
}

template <class T, class Differs>
bool compare(const std::string &name, const std::vector<T> &got, const std::vector<T> &right,
             const std::vector<T> &before, int line, Differs differs) {
  if (got.size() != right.size()) {
    Wrong bad{"data", "shape", std::to_string(got.size()) + " values, expected " + std::to_string(right.size()), {}};
    return told(name, line, &bad);
  }
  if (got.empty()) {
    Wrong bad{"data", "nothing", "it compares nothing: there are no values", {}};
    return told(name, line, &bad);
  }
  std::vector<size_t> at;
  for (size_t i = 0; i < got.size(); i++)
    if (differs(got[i], right[i])) at.push_back(i);
  if (at.empty()) return told(name, line, nullptr);
  std::string kind = classify(got, at, before), first = std::to_string(at[0]);
  std::string text = std::to_string(at.size()) + " of " + std::to_string(got.size()) + " wrong from element " + first;
  text += kind == "zero" ? ": all zero" : kind == "nan" ? ": all NaN" : kind == "stale" ? ": all as before" : "";
  std::string some[2], places;
  const size_t last = (at.size() < 4 ? at.size() : 4) - 1;
  for (size_t n = 0; n <= last; n++) {
    places += (n ? ", " : "") + std::to_string(at[n]);
    some[0] += (n ? ", " : "") + shown(got[at[n]]);
    some[1] += (n ? ", " : "") + shown(right[at[n]]);
  }
  // Values without gaps are shown after the index of the first one.
  if (at[last] - at[0] == last) places = first;
  Wrong bad{"data", kind, text, {"  got at " + places + ": " + some[0], "right at " + places + ": " + some[1]}};
  if (!before.empty() && before.size() != got.size())
    bad.details.push_back("`before` has " + std::to_string(before.size()) + " values and says nothing of these " + std::to_string(got.size()));
  return told(name, line, &bad);
}

// Checks that `got` equals `right`. The previous content `before` helps to classify wrong values.
template <class T>
bool equal(const std::string &name, const std::vector<T> &got, const std::vector<T> &right,
           const std::vector<T> &before = {}, int line = __builtin_LINE()) {
  return compare(name, got, right, before, line, [](const T &a, const T &b) { return !agree(a, b); });
}

template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
bool equal(const std::string &name, T got, T right, int line = __builtin_LINE()) {
  return equal(name, std::vector<T>{got}, std::vector<T>{right}, {}, line);
}

// Checks that `got` differs from `right` by at most `ulp` numbers of their type.
template <class T>
bool close(const std::string &name, const std::vector<T> &got, const std::vector<T> &right, uint64_t ulp,
           const std::vector<T> &before = {}, int line = __builtin_LINE()) {
  return compare(name, got, right, before, line, [ulp](const T &a, const T &b) { return ulps(a, b) > ulp; });
}

// Checks that two results agree, for cases where the right result is unknown.
template <class T>
bool same(const std::string &name, const std::vector<T> &one, const std::vector<T> &other, int line = __builtin_LINE()) {
  return equal(name, one, other, {}, line);
}

// Checks any other condition.
inline bool holds(const std::string &name, bool truth, const std::string &text = "it does not hold", int line = __builtin_LINE()) {
  Wrong bad{"data", "false", text, {}};
  return told(name, line, truth ? nullptr : &bad);
}

// Checks the status that a function of HIP returned.
inline bool status(const std::string &name, hipError_t got, hipError_t right = hipSuccess, int line = __builtin_LINE()) {
  if (got == right) return told(name, line, nullptr);
  std::string answer = hipGetErrorName(got);
  Wrong bad{"answer", answer, "answers " + answer + ", expected " + hipGetErrorName(right), {}};
  return told(name, line, &bad);
}

// Checks the status that a function of another library returned, as a number.
template <class T>
bool status(const std::string &name, T got, T right = T(0), int line = __builtin_LINE()) {
  auto number = [](T of) { return std::to_string(static_cast<long long>(of)); };
  Wrong bad{"answer", number(got), "answers " + number(got) + ", expected " + number(right), {}};
  return told(name, line, got == right ? nullptr : &bad);
}

// Checks that an amount, for example of free memory or handles, is the same after as before.
inline bool given_back(const std::string &name, size_t before, size_t after, int line = __builtin_LINE()) {
  Wrong bad{"leak", "lost", std::to_string(before) + " before, " + std::to_string(after) + " after", {}};
  return told(name, line, before == after ? nullptr : &bad);
}

// Ends the program if the status is not success. For calls that the case does not test.
[[noreturn]] inline void refused(const std::string &name, const std::string &what, int line) {
  std::fprintf(stderr, "line %d: %s returns %s\n", line, what.c_str(), name.c_str());
  say("{\"say\":\"exception\",\"name\":" + quoted(name) + ",\"text\":" + quoted("a function of " + what + " returns it") +
      ",\"line\":" + std::to_string(line) + "}");
  std::exit(1);
}

inline void must(hipError_t got, const std::string &what = "HIP", int line = __builtin_LINE()) {
  if (got != hipSuccess) refused(hipGetErrorName(got), what, line);
}

// The same for other libraries, such as hipRTC, whose success is also 0.
template <class T>
void must(T got, const std::string &what, int line = __builtin_LINE()) {
  static_assert(!std::is_same<T, bool>::value, "`must` takes a status; `holds` takes a truth value");
  if (got != T(0)) refused(what + "_" + std::to_string(static_cast<long long>(got)), what, line);
}

// Reports that a function returned the device error that the case tests. The error then counts neither as a failure nor as a pass.
inline void told_of_fault() { say("{\"say\":\"told_of_fault\"}"); }

// Ends the program, because a prerequisite is missing.
[[noreturn]] inline void skip(const std::string &why) {
  say("{\"say\":\"skip\",\"why\":" + quoted(why) + "}");
  std::exit(0);
}

// Must be the last call; returns the exit status. Without it, the program is reported to have ended early.
inline int done() {
  say("{\"say\":\"done\",\"pid\":" + std::to_string(getpid()) + "}");
  return !std::getenv("ROCREPRO_REPORT") && wrong() ? 1 : 0;
}

}  // namespace rocrepro
