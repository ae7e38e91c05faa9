static std::string name_of(hipblasStatus_t status) {
  static const char* const names[] = {"SUCCESS",        "NOT_INITIALIZED",  "ALLOC_FAILED",   "INVALID_VALUE",
                                      "MAPPING_ERROR",  "EXECUTION_FAILED", "INTERNAL_ERROR", "NOT_SUPPORTED",
                                      "ARCH_MISMATCH",  "HANDLE_IS_NULLPTR", "INVALID_ENUM",  "UNKNOWN"};
  if (unsigned(status) < 12) return std::string("HIPBLAS_STATUS_") + names[status];
  return "hipblasStatus_t(" + std::to_string(int(status)) + ")";
}
