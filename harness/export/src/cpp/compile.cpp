// Compiles a kernel for the device.
static std::vector<char> compile(const char* name, const char* source, const std::string& arch,
                                 std::initializer_list<const char*> more = {}) {
  hiprtcProgram program;
  HIP_CHECK(hiprtcCreateProgram(&program, source, name, 0, nullptr, nullptr));
  const std::string offload = "--offload-arch=" + arch;
  std::vector<const char*> options = {offload.c_str(), "-O3"};
  options.insert(options.end(), more);
  if (hiprtcCompileProgram(program, int(options.size()), options.data()) != HIPRTC_SUCCESS) {
    size_t bytes = 0;
    HIP_CHECK(hiprtcGetProgramLogSize(program, &bytes));
    std::string log(bytes, '\0');
    HIP_CHECK(hiprtcGetProgramLog(program, &log[0]));
    std::printf("FAIL: kernel %s did not compile\n%s\n", name, log.c_str());
    std::exit(1);
  }
  size_t bytes = 0;
  HIP_CHECK(hiprtcGetCodeSize(program, &bytes));
  std::vector<char> code(bytes);
  HIP_CHECK(hiprtcGetCode(program, code.data()));
  HIP_CHECK(hiprtcDestroyProgram(&program));
  return code;
}
