family! { events

    /// Creates an event, without timing unless `timing` is set.
    EventCreate {
        event: Name as makes(Event),
        #[serde(default)]
        timing: bool as flag,
    }
        verb: none;
        makes: ["hipEventCreateWithFlags"];
        in_capture: Now; by_hand: []; gives: Nothing;
        effect: {
            memory: Nothing,
            captures: NewEvent(event),
            order: NewEvent(event),
            work_stream: NoStream,
            over: Nothing,
        };
        words: (""); cpp: Stream;

    EventDestroy { event: Name as ends(Event) }
        verb: none;
        makes: ["hipEventDestroy"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: (""); cpp: Function("hipEventDestroy({event})");

    EventRecord { event: Name as uses(Event), stream: Name as uses(Stream) }
        verb: keys record "record an event in a stream";
        makes: ["hipEventRecord"];
        in_capture: Now; by_hand: []; gives: Nothing;
        effect: {
            memory: Nothing,
            captures: Nothing,
            order: Record { event, stream },
            work_stream: Mark(stream),
            over: Nothing,
        };
        words: ("record of {event} in stream {stream}"); cpp: Function("hipEventRecord({event}, {stream})");

    StreamWaitEvent { stream: Name as uses(Stream), event: Name as uses(Event) }
        verb: keys wait "make a stream wait for an event";
        makes: ["hipStreamWaitEvent"];
        in_capture: Now; by_hand: []; gives: Nothing;
        effect: {
            memory: Nothing,
            captures: Nothing,
            order: WaitEvent { stream, event },
            work_stream: Mark(stream),
            over: Nothing,
        };
        words: ("wait of stream {stream} for {event}");
        cpp: Function("hipStreamWaitEvent({stream}, {event}, 0)");

    EventSynchronize { event: Name as uses(Event) }
        verb: value sync_event "wait for an event";
        makes: ["hipEventSynchronize"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: { only order: SyncEvent(event) };
        words: ("sync of event {event}"); cpp: Function("hipEventSynchronize({event})");

    EventQuery { event: Name as uses(Event) }
        verb: value query_event "query whether an event has completed";
        makes: ["hipEventQuery"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("query of event {event}"); cpp: Function("hipEventQuery({event})");

    /// Measures the time between two events. The returned value is in microseconds, rounded to a whole number.
    EventElapsed { start: Name as uses(Event), end: Name as uses(Event) }
        verb: keys elapsed
            "return the microseconds between two events, which are created with timing; `gives: steady` fails if \
             longer than 20 x the trial's first steady interval + 1 s";
        makes: ["hipEventElapsedTime"];
        in_capture: Now; by_hand: []; gives: Number(&[FirstValueCheck::Steady]); effect: nothing;
        words: ("time from {start} to {end}"); cpp: Stream;
}
