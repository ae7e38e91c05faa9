static std::string name_of(hipError_t status) { return hipGetErrorName(status); }
