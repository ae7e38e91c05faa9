family! { memory

    /// Allocates a buffer and its guards with the function for its kind of [`Memory`](crate::Memory). Pool memory is
    /// allocated in the order of `stream`.
    Alloc { buffer: Name as makes(Buffer), stream: Name as uses(Stream) }
        verb: by_hand alloc [buffer, stream] "allocate a buffer here instead of before the steps";
        makes: { |plan| plan.memory(buffer) => {
            Some(Memory::DevicePitched) => ["hipMallocPitch"],
            Some(Memory::DeviceAsync) => ["hipMallocAsync"],
            Some(Memory::Managed) => ["hipMallocManaged"],
            Some(Memory::HostPageable) => ["host malloc"],
            Some(Memory::HostPinned) => ["hipHostMalloc"],
            Some(Memory::HostRegistered) => ["hipHostRegister"],
            Some(Memory::Device) | None => ["hipMalloc"],
        } };
        in_capture: Node; by_hand: []; gives: Nothing;
        effect: {
            memory: Alloc(buffer),
            captures: Allocated,
            order: Alloc(buffer),
            work_stream: Pool { buffer, stream },
            over: Nothing,
        };
        words: ("allocation of {buffer}"); cpp: Memory;

    /// Frees a buffer. If the buffer has been freed before, passes its old address to the function again. Pool memory
    /// is freed in the order of `stream`.
    Free { buffer: Name as ends(Buffer), stream: Name as uses(Stream) }
        verb: by_hand free [buffer, stream] "free a buffer here instead of after the steps";
        makes: { |plan| plan.memory(buffer) => {
            Some(Memory::DeviceAsync) => ["hipFreeAsync"],
            Some(Memory::HostPageable) => ["host free"],
            Some(Memory::HostPinned) => ["hipHostFree"],
            Some(Memory::HostRegistered) => ["hipHostUnregister"],
            Some(Memory::Device | Memory::DevicePitched | Memory::Managed) | None => ["hipFree"],
        } };
        in_capture: Node; by_hand: []; gives: Nothing;
        effect: {
            memory: Free(buffer),
            captures: Nothing,
            order: Free(buffer),
            work_stream: Pool { buffer, stream },
            over: Nothing,
        };
        words: ("free of {buffer}"); cpp: Memory;

    /// Calls hipFree with an address at which the plan has no buffer.
    FreeAddress { address: u64 as number }
        verb: value free_address "free an address that does not belong to a buffer";
        makes: ["hipFree"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("free of address {address:#x}"); cpp: Memory;

    /// Writes [`POISON_BYTE`](crate::POISON_BYTE) over the buffer and [`GUARD_BYTE`](crate::GUARD_BYTE) over its
    /// guards, before all other steps. Host memory is written by the host, other memory with hipMemset.
    Poison { buffer: Name as uses(Buffer) }
        verb: none;
        makes: { |plan| plan.on_host(buffer) => {
            true => ["host poison"],
            false => ["hipMemset"],
        } };
        in_capture: Now; by_hand: []; gives: Nothing;
        effect: {
            memory: Poison(buffer),
            captures: Nothing,
            order: ProgramOrder,
            work_stream: NearestTo(buffer),
            over: Nothing,
        };
        words: (""); cpp: Memory;
}
