//! Actions of the host: fills, checks, sleeps, and blocks of steps.

family! { host

    /// Makes the host fill a buffer with a [`pattern`](crate::pattern). The stamp of the pattern, which
    /// [`fill_stamp`](crate::fill_stamp) returns, differs between all fills of a trial, so that wrong bytes can be
    /// traced to one of them.
    Fill { buffer: Name as writes(Host), stamp: u32 as plain }
        verb: by_hand fill [buffer, numbers, file]
            "fill a buffer from the host with a new pattern, small integers (`numbers`) or the bytes of a `file`";
        makes: ["host fill"];
        in_capture: Now; by_hand: []; gives: Nothing;
        effect: {
            memory: Fill { buffer, stamp: *stamp },
            captures: Nothing,
            order: ProgramOrder,
            work_stream: NoStream,
            over: Nothing,
        };
        words: ("fill of {buffer}"); cpp: Host;

    /// Makes the host fill a buffer with [`small_numbers`](crate::small_numbers).
    FillNumbers {
        buffer: Name as writes(Host),
        dtype: Dtype as choice,
        stamp: u32 as plain,
    }
        verb: part fill_numbers "fill";
        makes: ["host fill"];
        in_capture: Now; by_hand: []; gives: Nothing;
        effect: {
            memory: FillNumbers { buffer, dtype: *dtype, stamp: *stamp },
            captures: Nothing,
            order: ProgramOrder,
            work_stream: NoStream,
            over: Nothing,
        };
        words: ("fill of {buffer}"); cpp: Host;

    /// Makes the host copy the bytes of a file in [`Plan::files`] to a buffer.
    FillFile { buffer: Name as writes(Host), file: String as plain }
        verb: part fill_file "fill";
        makes: ["host fill"];
        in_capture: Now; by_hand: []; gives: Nothing;
        effect: {
            memory: FillFile { buffer, file },
            captures: Nothing,
            order: ProgramOrder,
            work_stream: NoStream,
            over: Nothing,
        };
        words: ("fill of {buffer}"); cpp: Host;

    /// Checks that a host-accessible buffer has the content that the reference model computed. If `file` names a file
    /// in [`Plan::files`], bytes that the model cannot compute must equal the bytes of that file.
    Check {
        buffer: Name as reads(Host),
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String> as plain,
    }
        verb: by_hand check [buffer, file]
            "the buffer must have the content that follows from program order; bytes that a kernel without `computes` \
             wrote must be those of a `file`";
        makes: ["host read"];
        in_capture: Now; by_hand: []; gives: Nothing;
        effect: { memory: Check { buffer, file: file.as_deref() }, captures: Nothing, order: ProgramOrder, work_stream: NoStream, over: Nothing };
        words: ("check of {buffer}"); cpp: Check;

    /// Checks that two host-accessible buffers have equal bytes.
    Equal { a: Name as reads(Host), b: Name as reads(Host) }
        verb: by_hand equal [] "two buffers must hold the same bytes";
        makes: ["host read"];
        in_capture: Now; by_hand: []; gives: Nothing;
        effect: { memory: Compare(a, b), captures: Nothing, order: ProgramOrder, work_stream: NoStream, over: Nothing };
        words: ("comparison of {a} and {b}"); cpp: Check;

    /// Checks that two host-accessible buffers have different bytes.
    Differ { a: Name as reads(Host), b: Name as reads(Host) }
        verb: by_hand differ [] "two buffers must hold different bytes";
        makes: ["host read"];
        in_capture: Now; by_hand: []; gives: Nothing;
        effect: { memory: Compare(a, b), captures: Nothing, order: ProgramOrder, work_stream: NoStream, over: Nothing };
        words: ("difference of {a} and {b}"); cpp: Check;

    /// Checks that each element of a host-accessible buffer is greater than or equal to a given number.
    AtLeast { buffer: Name as reads(Host), least: Scalar as plain }
        verb: by_hand at_least [buffer, type, value]
            "each element of a buffer must be at least a given number, and not a NaN";
        makes: ["host read"];
        in_capture: Now; by_hand: []; gives: Nothing;
        effect: { memory: Read(buffer), captures: Nothing, order: ProgramOrder, work_stream: NoStream, over: Nothing };
        words: ("lower bound of {buffer}"); cpp: Check;

    /// Checks that the guards of a buffer are unchanged.
    Guards { buffer: Name as reads(Any) }
        verb: none;
        makes: { |plan| plan.on_host(buffer) => {
            true => ["host read"],
            false => ["hipMemcpy"],
        } };
        in_capture: Now; by_hand: []; gives: Nothing; effect: { only memory: Guards(buffer) };
        words: (""); cpp: Check;

    /// Makes the host thread sleep for `ms` milliseconds.
    Sleep { ms: u64 as number }
        verb: by_hand sleep [] "let the host sleep for this many milliseconds";
        makes: ["host sleep"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("sleep of {ms} ms"); cpp: Host;

    /// Executes the steps in `body` `count` times.
    Repeat { count: u32 as number, body: Vec<Step> as block }
        verb: block repeat [count, steps] "run steps several times";
        makes: ["repeat"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("{count} iterations"); cpp: Block;

    /// Executes the steps in `body` on a second host thread, and waits for the thread at the end of the block.
    Thread { body: Vec<Step> as block }
        verb: block thread [] "run steps on a second host thread and join it";
        makes: ["thread"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("second host thread"); cpp: Block;
}
