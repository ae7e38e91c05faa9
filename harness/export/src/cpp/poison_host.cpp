static void poison_host(unsigned char* buffer, size_t bytes) {
  std::memset(buffer - GUARD, GUARD_BYTE, GUARD);
  std::memset(buffer, POISON, bytes);
  std::memset(buffer + bytes, GUARD_BYTE, GUARD);
}
