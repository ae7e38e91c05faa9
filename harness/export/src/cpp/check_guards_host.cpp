static void check_guards(const char* what, const unsigned char* buffer, size_t bytes) {
  std::vector<unsigned char> guards(buffer - GUARD, buffer), right(2 * GUARD, GUARD_BYTE);
  guards.insert(guards.end(), buffer + bytes, buffer + bytes + GUARD);
  check(what, guards.data(), right.data(), guards.size());
}
