// Checks that each element of a buffer is at least a given number.
template <class T>
static void check_at_least(const char* name, const unsigned char* buffer, size_t count, T least) {
  for (size_t i = 0; i < count; i++) {
    T element;
    std::memcpy(&element, buffer + i * sizeof element, sizeof element);
    if (element >= least) continue;
    failures++;
    std::printf("FAIL: buffer %s: element %zu is %s, and must be at least %s\n", name, i,
                std::to_string(element).c_str(), std::to_string(least).c_str());
    std::fflush(stdout);
    return;
  }
}
