static const char* name_of(hipStreamCaptureStatus status) {
  static const char* const names[] = {"none", "active", "invalidated"};
  return names[status];
}
