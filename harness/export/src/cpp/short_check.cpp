// Ends the program if a call does not return the right status.
#define CHECK(call, right)                                                                               \
  if (const auto status = (call); status != (right)) {                                                   \
    std::printf("FAIL: %s returned %s; expected %s (line %d)\n", #call, name_of(status).c_str(), #right, \
                __LINE__);                                                                               \
    std::exit(1);                                                                                        \
  }
