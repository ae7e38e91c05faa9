static std::string name_of(hiprandStatus_t status) { return "hiprandStatus_t(" + std::to_string(int(status)) + ")"; }
