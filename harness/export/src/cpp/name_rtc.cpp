static std::string name_of(hiprtcResult status) { return hiprtcGetErrorString(status); }
