family! { copies

    /// Copies a contiguous range of bytes; `api` selects the function.
    Copy {
        to: BufferAddress as writes(Any),
        from: BufferAddress as reads(Any),
        bytes: u64 as number,
        api: CopyApi as asynchronous,
        stream: Name as uses(Stream),
    }
        verb: by_hand copy [to, from, bytes, to_offset, from_offset, api, stream, graph]
            "copy a flat range; with `graph`, as a node of that graph";
        makes: { |plan| (api, plan.ends_on_host(from, to)) => {
            (CopyApi::Memcpy, _) => ["hipMemcpy"],
            (CopyApi::MemcpyAsync, _) => ["hipMemcpyAsync"],
            (CopyApi::MemcpyWithStream, _) => ["hipMemcpyWithStream"],
            (CopyApi::MemcpyDirected, (true, false)) => ["hipMemcpyHtoD"],
            (CopyApi::MemcpyDirected, (false, true)) => ["hipMemcpyDtoH"],
            (CopyApi::MemcpyDirected, (true, true) | (false, false)) => ["hipMemcpyDtoD"],
        } };
        in_capture: if api.has_stream() { Node } else { Now };
        by_hand: ["hipGraphAddMemcpyNode1D"];
        gives: Nothing;
        effect: {
            memory: Copy { to, from, bytes: *bytes },
            captures: Nothing,
            order: ProgramOrder,
            work_stream: WorkStream::asynchronous(api.has_stream(), stream),
            over: Copy { asynchronous: api.is_asynchronous(), to: &to.buffer, from: &from.buffer },
        };
        words: ("copy of {} to {}", from.buffer, to.buffer); cpp: Transfer;

    /// Copies `height` rows of `width` bytes with hipMemcpy2D. Pitches are in bytes.
    Copy2d {
        to: BufferAddress as writes(Any),
        to_pitch: u64 as number,
        from: BufferAddress as reads(Any),
        from_pitch: u64 as number,
        width: u64 as number,
        height: u64 as number,
        asynchronous: bool as asynchronous,
        stream: Name as uses(Stream),
    }
        verb: by_hand copy_2d [to, to_pitch, from, from_pitch, width, height, async, stream]
            "copy rows; pitches and width in bytes";
        makes: { |_plan| asynchronous => {
            false => ["hipMemcpy2D"],
            true => ["hipMemcpy2DAsync"],
        } };
        in_capture: if *asynchronous { Node } else { Now }; by_hand: []; gives: Nothing;
        effect: {
            memory: Rows { to: (to, *to_pitch), from: (from, *from_pitch), width: *width, height: *height },
            captures: Nothing,
            order: ProgramOrder,
            work_stream: WorkStream::asynchronous(*asynchronous, stream),
            over: Copy { asynchronous: *asynchronous, to: &to.buffer, from: &from.buffer },
        };
        words: ("copy of {} to {}", from.buffer, to.buffer); cpp: Transfer;

    /// Copies a box of `width` bytes, `height` rows and `depth` slices with hipMemcpy3D.
    Copy3d {
        to: Box3d as writes(Any),
        from: Box3d as reads(Any),
        width: u64 as number,
        height: u64 as number,
        depth: u64 as number,
        asynchronous: bool as asynchronous,
        stream: Name as uses(Stream),
    }
        verb: by_hand copy_3d [
            to, to_pitch, to_rows, to_at, from, from_pitch, from_rows, from_at, width, height, depth, async, stream
        ]
            "copy a box between buffers that are slices of rows; pitches and width in bytes, `rows` for each slice, \
             and the start of the box in each as byte, row and slice";
        makes: { |_plan| asynchronous => {
            false => ["hipMemcpy3D"],
            true => ["hipMemcpy3DAsync"],
        } };
        in_capture: if *asynchronous { Node } else { Now }; by_hand: []; gives: Nothing;
        effect: {
            memory: Boxes { to, from, size: [*width, *height, *depth] },
            captures: Nothing,
            order: ProgramOrder,
            work_stream: WorkStream::asynchronous(*asynchronous, stream),
            over: Copy { asynchronous: *asynchronous, to: &to.buffer, from: &from.buffer },
        };
        words: ("copy of {} to {}", from.buffer, to.buffer); cpp: Transfer;

    /// Sets each byte of a box to one value: with hipMemset3D if `depth` is given, else with hipMemset2D.
    SetRows {
        to: Box3d as writes(Any),
        value: u8 as number,
        width: u64 as number,
        height: u64 as number,
        depth: Option<u64> as plain,
        asynchronous: bool as asynchronous,
        stream: Name as uses(Stream),
    }
        verb: by_hand set_rows [to, pitch, rows, at, value, width, height, depth, async, stream]
            "set rows to a byte, or with `depth` a box in slices of `rows` rows each; pitch and width in bytes, and \
             the start of the box as byte, row and slice";
        makes: { |_plan| (depth.is_some(), asynchronous) => {
            (false, false) => ["hipMemset2D"],
            (false, true) => ["hipMemset2DAsync"],
            (true, false) => ["hipMemset3D"],
            (true, true) => ["hipMemset3DAsync"],
        } };
        in_capture: if *asynchronous { Node } else { Now }; by_hand: []; gives: Nothing;
        effect: {
            memory: SetBox { to, value: *value, size: [*width, *height, depth.unwrap_or(1)] },
            captures: Nothing,
            order: ProgramOrder,
            work_stream: WorkStream::asynchronous(*asynchronous, stream),
            over: Nothing,
        };
        words: ("memset of rows of {}", to.buffer); cpp: Transfer;

    /// Sets `bytes` bytes to `value`. Without `words`, each byte is set (hipMemset). With `words`, each group of four
    /// bytes is set to the 32-bit `value` (hipMemsetD32).
    Set {
        to: BufferAddress as writes(Any),
        value: u32 as number,
        #[serde(default)]
        words: bool as flag,
        bytes: u64 as number,
        asynchronous: bool as asynchronous,
        stream: Name as uses(Stream),
    }
        verb: by_hand set [to, value, words, bytes, offset, async, stream, graph]
            "set bytes to a value, or 32-bit `words`; with `graph`, as a node of that graph";
        makes: { |_plan| (words, asynchronous) => {
            (true, false) => ["hipMemsetD32"],
            (true, true) => ["hipMemsetD32Async"],
            (false, false) => ["hipMemset"],
            (false, true) => ["hipMemsetAsync"],
        } };
        in_capture: if *asynchronous { Node } else { Now }; by_hand: ["hipGraphAddMemsetNode"]; gives: Nothing;
        effect: {
            memory: Set { to, value: *value, element: if *words { 4 } else { 1 }, bytes: *bytes },
            captures: Nothing,
            order: ProgramOrder,
            work_stream: WorkStream::asynchronous(*asynchronous, stream),
            over: Nothing,
        };
        words: ("memset of {}", to.buffer); cpp: Transfer;

    /// Sets `count` 16-bit elements to `value` with hipMemsetD16Async.
    SetHalves {
        to: BufferAddress as writes(Any),
        value: u16 as number,
        count: u64 as number,
        stream: Name as uses(Stream),
    }
        verb: keys set_halves "set this many 16-bit elements to a value";
        makes: ["hipMemsetD16Async"];
        in_capture: Node; by_hand: []; gives: Nothing;
        effect: {
            memory: Set { to, value: (*value).into(), element: 2, bytes: count.saturating_mul(2) },
            captures: Nothing,
            order: ProgramOrder,
            work_stream: Stream(stream),
            over: Nothing,
        };
        words: ("memset of {}", to.buffer);
        cpp: Function("hipMemsetD16Async({to}, {value}, {count}, {stream})");
}
