// The host function that is used in streams: increments every byte.
template <size_t bytes>
static void add_one(void* data) {
  for (size_t i = 0; i < bytes; i++) static_cast<unsigned char*>(data)[i]++;
}

template <size_t bytes>
static void add_one(hipStream_t, hipError_t, void* data) {
  add_one<bytes>(data);
}
