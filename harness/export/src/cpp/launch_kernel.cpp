// <<<>>> gives no status, and hipGetLastError would also tell of an earlier call.
template <class... Params>
static hipError_t launch(void (*kernel)(Params...), dim3 grid, dim3 block, hipStream_t stream, Params... args) {
  void* pointers[] = {&args...};
  return hipLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, 0, stream);
}
