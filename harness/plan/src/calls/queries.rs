family! { queries

    /// Queries and clears HIP's last error. The call returns that error as its status.
    GetLastError
        verb: value get_last_error "read and clear the last error";
        makes: ["hipGetLastError"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("query of the last error"); cpp: Function("hipGetLastError()");

    /// Queries HIP's last error without clearing it. The call returns that error as its status.
    PeekAtLastError
        verb: value peek_last_error "read the last error without clearing it";
        makes: ["hipPeekAtLastError"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("query of the last error without clearing it"); cpp: Function("hipPeekAtLastError()");

    /// Queries the free device memory. The returned value is the number of free bytes, or `more than the total`.
    MemGetInfo
        verb: value mem_info
            "return the free device memory; `gives: returned` fails if less is free than at the trial's first \
             `mem_info`, and still less after a second, `gives: unchanged` if more or less is; both fail if more than \
             the total is free";
        makes: ["hipMemGetInfo"];
        in_capture: Now; by_hand: []; gives: Number(&[FirstValueCheck::Returned, FirstValueCheck::Unchanged]); effect: nothing;
        words: ("query of the free memory"); cpp: Memory;

    /// Queries an attribute of a device. The returned value is the value of the attribute.
    DeviceAttribute { attribute: DeviceAttribute as choice, device: u32 as number(0) }
        verb: keys device_attribute
            "return warp_size, max_threads_per_block or multiprocessor_count of a device";
        makes: ["hipDeviceGetAttribute"];
        in_capture: Now; by_hand: []; gives: Number(&[]); effect: nothing;
        words: ("query of a device attribute");
        cpp: Function("hipDeviceGetAttribute(&{attribute: int}, hipDeviceAttribute{attribute}, {device})");

    /// Trims the default memory pool to 0 bytes, so that hipMemGetInfo counts memory that was freed in stream order as
    /// free.
    TrimPool
        verb: value trim_pool "release the unused memory of the default pool";
        makes: ["hipMemPoolTrimTo", "hipDeviceGetDefaultMemPool"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("trim of the pool"); cpp: Memory;
}
