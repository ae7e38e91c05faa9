// Ends the program if a call fails. 0 means success in every ROCm library.
#define HIP_CHECK(call) require(call, #call, __LINE__)

template <class Status>
static void require(Status status, const char* call, int line) {
  if (status == Status(0)) return;
  std::printf("FAIL: %s returned %s; expected success (line %d)\n", function_of(call).c_str(),
              name_of(status).c_str(), line);
  std::exit(1);
}
