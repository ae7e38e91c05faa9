// Adds a kernel node after the last node of a graph.
template <class... Args>
static hipError_t add_kernel(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* last, size_t count,
                             void* kernel, dim3 grid, dim3 block, unsigned shared, Args... args) {
  void* pointers[sizeof...(args) + 1] = {&args...};
  hipKernelNodeParams params = {block, nullptr, kernel, grid, pointers, shared};
  return hipGraphAddKernelNode(node, graph, last, count, &params);
}
