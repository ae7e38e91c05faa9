// <<<>>> returns no status, and hipGetLastError could return the error of an earlier call.
template <class... Params>
static hipError_t launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared, hipStream_t stream, Params... args) {
  void* pointers[sizeof...(args) + 1] = {&args...};
  return hipLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, shared, stream);
}
