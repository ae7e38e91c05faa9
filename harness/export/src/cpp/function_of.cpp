static std::string function_of(const char* call) { return std::string(call, std::strcspn(call, "(")); }
