// Reports an unexpected value, and continues.
static void expect_value(const char* function, const std::string& got, const char* right, bool fits) {
  if (fits) return;
  failures++;
  std::printf("FAIL: %s gave %s; expected %s\n", function, got.c_str(), right);
  std::fflush(stdout);
}
