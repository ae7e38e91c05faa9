family! { rng

    /// Creates a random generator: with hiprandCreateGeneratorHost if `host` is set, else with hiprandCreateGenerator.
    RandCreate {
        generator: Name as makes(Generator),
        kind: RandKind as choice(RandKind::Xorwow),
        host: bool as flag,
    }
        verb: keys rand_create "create a random generator";
        makes: { |_plan| host => {
            false => ["hiprandCreateGenerator"],
            true => ["hiprandCreateGeneratorHost"],
        } };
        in_capture: Now; by_hand: []; gives: Nothing;
        effect: {
            memory: Nothing,
            captures: NewGenerator(generator),
            order: Nothing,
            work_stream: NoStream,
            over: Nothing,
        };
        words: ("creation of generator {generator}"); cpp: Random;

    RandSeed { generator: Name as uses(Generator), seed: u64 as number }
        verb: keys rand_seed "seed a generator";
        makes: ["hiprandSetPseudoRandomGeneratorSeed"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("seed of {generator}");
        cpp: Function("hiprandSetPseudoRandomGeneratorSeed({generator}, {seed})");

    RandOffset { generator: Name as uses(Generator), offset: u64 as number }
        verb: keys rand_offset "set a generator's offset";
        makes: ["hiprandSetGeneratorOffset"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("offset of {generator}"); cpp: Function("hiprandSetGeneratorOffset({generator}, {offset})");

    RandStream { generator: Name as uses(Generator), stream: Name as uses(Stream) }
        verb: keys rand_stream "set a generator's stream";
        makes: ["hiprandSetStream"];
        in_capture: Now; by_hand: []; gives: Nothing;
        effect: {
            memory: Nothing,
            captures: RandStream { generator, stream },
            order: Nothing,
            work_stream: NoStream,
            over: Nothing,
        };
        words: ("stream of {generator}"); cpp: Function("hiprandSetStream({generator}, {stream})");

    /// Generates `count` random 32-bit words.
    RandGenerate {
        generator: Name as uses(Generator),
        to: BufferAddress as writes(Any),
        count: u64 as number,
    }
        verb: by_hand rand_generate [generator, to, count] "generate 32-bit words";
        makes: ["hiprandGenerate"];
        in_capture: Node; by_hand: []; gives: Nothing;
        effect: {
            memory: Generate { to, count: *count },
            captures: Nothing,
            order: ProgramOrder,
            work_stream: Generator(generator),
            over: Nothing,
        };
        words: ("numbers of {generator} to {}", to.buffer); cpp: Random;

    RandDestroy { generator: Name as ends(Generator) }
        verb: value rand_destroy "destroy a generator";
        makes: ["hiprandDestroyGenerator"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("destruction of {generator}"); cpp: Function("hiprandDestroyGenerator({generator})");
}
