static const char* name_of(hipStreamCaptureStatus status) {
  if (status == hipStreamCaptureStatusNone) return "none";
  return status == hipStreamCaptureStatusActive ? "active" : "invalidated";
}
