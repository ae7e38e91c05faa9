family! { streams

    StreamCreate { stream: Name as makes(Stream) }
        verb: value create_stream "create a stream here instead of before the steps";
        makes: ["hipStreamCreateWithFlags"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("creation of stream {stream}"); cpp: Stream;

    StreamDestroy { stream: Name as ends(Stream) }
        verb: value destroy_stream "destroy a stream here instead of after the steps";
        makes: ["hipStreamDestroy"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: { only order: DestroyStream(stream) };
        words: ("destruction of stream {stream}"); cpp: Function("hipStreamDestroy({stream})");

    StreamSynchronize { stream: Name as uses(Stream) }
        verb: by_hand sync [] "wait for a stream, or for the `device`";
        makes: ["hipStreamSynchronize"];
        in_capture: Refused; by_hand: []; gives: Nothing; effect: { only order: Sync(stream) };
        words: ("sync of stream {stream}"); cpp: Function("hipStreamSynchronize({stream})");

    DeviceSynchronize
        verb: part sync_device "sync";
        makes: ["hipDeviceSynchronize"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: { only order: SyncDevice };
        words: ("sync of the device"); cpp: Function("hipDeviceSynchronize()");

    StreamQuery { stream: Name as uses(Stream) }
        verb: value query "query whether a stream is idle";
        makes: ["hipStreamQuery"];
        in_capture: Refused; by_hand: []; gives: Nothing; effect: nothing;
        words: ("query of stream {stream}"); cpp: Function("hipStreamQuery({stream})");

    /// Queries the flags of a stream. The returned value is 1 for a non-blocking stream, else 0.
    StreamGetFlags { stream: Name as uses(Stream) }
        verb: value stream_flags "return the flags of a stream: 1 if it is non_blocking, else 0";
        makes: ["hipStreamGetFlags"];
        in_capture: Now; by_hand: []; gives: Number(&[]); effect: nothing;
        words: ("flags of stream {stream}");
        cpp: Function("hipStreamGetFlags({stream}, &{flags: unsigned int})");

    /// Queries the priority of a stream. The returned value is the priority, 0 if the stream was created without one.
    StreamGetPriority { stream: Name as uses(Stream) }
        verb: value stream_priority "return the priority of a stream: 0 if it was created without a priority";
        makes: ["hipStreamGetPriority"];
        in_capture: Now; by_hand: []; gives: Number(&[]); effect: nothing;
        words: ("priority of stream {stream}");
        cpp: Function("hipStreamGetPriority({stream}, &{priority: int})");

    /// Enqueues a host function that adds one to every byte of a host buffer; `api` selects the function.
    HostFunc {
        buffer: Name as updates(Host),
        api: HostFuncApi as choice(HostFuncApi::LaunchHostFunc),
        stream: Name as uses(Stream),
    }
        verb: by_hand host_func [buffer, api, stream, graph]
            "let a host function in a stream, or in a node of a `graph`, add one to every byte of a host buffer";
        makes: { |_plan| api => {
            HostFuncApi::AddCallback => ["hipStreamAddCallback"],
            HostFuncApi::LaunchHostFunc => ["hipLaunchHostFunc"],
        } };
        in_capture: match api {
            HostFuncApi::AddCallback => Refused,
            HostFuncApi::LaunchHostFunc => Node,
        };
        by_hand: ["hipGraphAddHostNode"];
        gives: Nothing;
        effect: { memory: CountUp(buffer), captures: Nothing, order: ProgramOrder, work_stream: Stream(stream), over: Nothing };
        words: ("host function on {buffer}"); cpp: Stream;
}
