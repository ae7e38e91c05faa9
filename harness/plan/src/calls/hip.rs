//! Any function of libamdhip64, and a look at what it gave.

family! { hip

    /// A function of the table in `hip/functions.txt`; gives its text, or the first value that it gives.
    Hip { function: Name as plain, args: Vec<HipArg> as given(function) }
        verb: by_hand hip [call, args]
            "call any of the functions of libamdhip64 that the table has; `gives` is about the first value that it gives";
        makes: { |_plan| (crate::hip::called(function), &[]) };
        in_capture: crate::hip::in_capture(function, args); by_hand: [];
        gives: Anything;
        effect: {
            memory: crate::hip::on_memory(function, args),
            captures: Nothing,
            order: InTurn,
            works_in: crate::hip::works_in(function, args),
            over: crate::hip::over(function, args),
        };
        words: ("{function}"); cpp: Hip;

    /// What an earlier call gave; with another such value, whether they are the `same`, or it is `less`, `more` or `other`.
    HipValue {
        of: Name as uses(Value),
        function: Name as plain,
        read: HipRead as plain,
        against: Option<Name> as maybe(Value),
    }
        verb: by_hand hip_value [of, at, type, against]
            "give what a `hip` step has put under a name, or how it compares with another such value: `same`, `less`, `more` \
             or `other`";
        makes: ["host look at a value"];
        in_capture: Now; by_hand: []; gives: Anything; effect: nothing;
        words: ("look at what {function} gave as {of}"); cpp: Hip;
}
