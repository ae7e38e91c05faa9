// Reports a call that returned an unexpected status, and continues. Returns true if the call succeeded.
#define HIP_EXPECT(call, ...) expect_status(call, #call, __LINE__, {__VA_ARGS__})

template <class Status>
static bool expect_status(Status status, const char* call, int line, std::initializer_list<Status> right) {
  if (std::find(right.begin(), right.end(), status) != right.end()) return status == Status(0);
  failures++;
  std::printf("FAIL: %s returned %s; expected", function_of(call).c_str(), name_of(status).c_str());
  for (Status one : right) std::printf(" %s", name_of(one).c_str());
  std::printf(" (line %d)\n", line);
  std::fflush(stdout);
  return status == Status(0);
}
