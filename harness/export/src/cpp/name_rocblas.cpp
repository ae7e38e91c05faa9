static std::string name_of(rocblas_status status) { return rocblas_status_to_string(status); }
