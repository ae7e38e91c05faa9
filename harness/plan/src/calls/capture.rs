family! { capture

    BeginCapture { stream: Name as uses(Stream), mode: CaptureMode as choice(CaptureMode::Global) }
        verb: keys begin_capture "begin to capture a stream";
        makes: ["hipStreamBeginCapture"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: { only captures: Begin(stream) };
        words: ("begin of the capture of {stream}");
        cpp: Function("hipStreamBeginCapture({stream}, hipStreamCaptureMode{mode})");

    EndCapture { stream: Name as uses(Stream), graph: Name as makes(Graph) }
        verb: keys end_capture "end a capture and keep its graph";
        makes: ["hipStreamEndCapture"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: { only captures: End { stream, graph } };
        words: ("end of the capture of {stream}"); cpp: Function("hipStreamEndCapture({stream}, &{graph})");

    /// Sets the capture mode of the calling host thread. The returned value is the previous mode.
    ExchangeCaptureMode { mode: CaptureMode as choice }
        verb: value exchange_capture_mode
            "set the capture mode of this host thread, and return the previous mode";
        makes: ["hipThreadExchangeStreamCaptureMode"];
        in_capture: Now; by_hand: []; gives: Word(&["global", "thread_local", "relaxed"]); effect: nothing;
        words: ("exchange of the capture mode"); cpp: Graph;

    /// Queries the capture state of a stream. The returned value is `none`, `active` or `invalidated`.
    IsCapturing { stream: Name as uses(Stream) }
        verb: value is_capturing "return a stream's capture status: none, active or invalidated";
        makes: ["hipStreamIsCapturing"];
        in_capture: Now; by_hand: []; gives: Word(&["none", "active", "invalidated"]); effect: nothing;
        words: ("capture status of {stream}"); cpp: Graph;
}
