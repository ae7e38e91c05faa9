static void check_device_guards(const char* what, const unsigned char* buffer, size_t bytes) {
  std::vector<unsigned char> guards(2 * GUARD), right(2 * GUARD, GUARD_BYTE);
  HIP_CHECK(hipMemcpy(guards.data(), buffer - GUARD, GUARD, hipMemcpyDeviceToHost));
  HIP_CHECK(hipMemcpy(guards.data() + GUARD, buffer + bytes, GUARD, hipMemcpyDeviceToHost));
  check(what, guards.data(), right.data(), guards.size());
}
