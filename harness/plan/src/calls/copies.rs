//! Copies and memsets.

family! { copies

    /// Copies `bytes` bytes; `api` picks the function.
    Copy {
        to: Place as writes(Any),
        from: Place as reads(Any),
        bytes: u64 as number,
        api: CopyApi as choice,
        stream: Name as orders(Stream),
    }
        verb: by_hand copy [to, from, bytes, to_offset, from_offset, api, stream, graph]
            "copy a flat range; with `graph`, a node of that graph does it";
        makes: { |plan| (api, plan.ends_on_host(from, to)) => {
            (CopyApi::Memcpy, _) => ["hipMemcpy"],
            (CopyApi::MemcpyAsync, _) => ["hipMemcpyAsync"],
            (CopyApi::MemcpyWithStream, _) => ["hipMemcpyWithStream"],
            (CopyApi::MemcpyDirected, (true, false)) => ["hipMemcpyHtoD"],
            (CopyApi::MemcpyDirected, (false, true)) => ["hipMemcpyDtoH"],
            (CopyApi::MemcpyDirected, (true, true) | (false, false)) => ["hipMemcpyDtoD"],
        } };
        in_capture: match api {
            CopyApi::MemcpyAsync | CopyApi::MemcpyWithStream => Node,
            CopyApi::Memcpy | CopyApi::MemcpyDirected => Now,
        };
        by_hand: ["hipGraphAddMemcpyNode1D"];
        gives: Nothing;
        effect: {
            memory: copy(to, from, *bytes),
            captures: nothing,
            order: in_turn,
            touches: copies(to, from, *bytes, *api),
        };
        words: ("copy of {} to {}", from.buffer, to.buffer); cpp: Transfer;

    /// Copies `height` rows of `width` bytes; pitches are in bytes.
    Copy2d {
        to: Place as writes(Any),
        to_pitch: u64 as number,
        from: Place as reads(Any),
        from_pitch: u64 as number,
        width: u64 as number,
        height: u64 as number,
        asynchronous: bool as flag,
        stream: Name as orders(Stream),
    }
        verb: by_hand copy_2d [to, to_pitch, from, from_pitch, width, height, async, stream]
            "copy rows; pitches and width in bytes";
        makes: { |_plan| asynchronous => {
            false => ["hipMemcpy2D"],
            true => ["hipMemcpy2DAsync"],
        } };
        in_capture: if *asynchronous { Node } else { Now }; by_hand: []; gives: Nothing;
        effect: {
            memory: rows((to, *to_pitch), (from, *from_pitch), *width, *height),
            captures: nothing,
            order: in_turn,
            touches: rows((to, *to_pitch), (from, *from_pitch), (*width, *height), *asynchronous),
        };
        words: ("copy of {} to {}", from.buffer, to.buffer); cpp: Transfer;

    /// Sets `bytes` bytes to the byte `value`, or with `words` each four of them to the 32-bit `value`:
    /// hipMemset, hipMemsetD32.
    Set {
        to: Place as writes(Any),
        value: u32 as number,
        #[serde(default)]
        words: bool as flag,
        bytes: u64 as number,
        asynchronous: bool as flag,
        stream: Name as orders(Stream),
    }
        verb: by_hand set [to, value, words, bytes, offset, async, stream, graph]
            "set bytes to a value, or 32-bit `words`; with `graph`, a node of that graph does it";
        makes: { |_plan| (words, asynchronous) => {
            (true, false) => ["hipMemsetD32"],
            (true, true) => ["hipMemsetD32Async"],
            (false, false) => ["hipMemset"],
            (false, true) => ["hipMemsetAsync"],
        } };
        in_capture: if *asynchronous { Node } else { Now }; by_hand: ["hipGraphAddMemsetNode"]; gives: Nothing;
        effect: {
            memory: set(to, *value, *words, *bytes),
            captures: nothing,
            order: in_turn,
            touches: writes_range(to, *bytes),
        };
        words: ("memset of {}", to.buffer); cpp: Transfer;
}
