// Allocates pageable host memory with the alignment of device memory.
static unsigned char* host_alloc(size_t bytes) {
  return static_cast<unsigned char*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
}
