//! Macros that generate code from the declarations of calls. `calls.rs` describes the declarations.

/// Collects the declarations of all families of calls, for example of all graph calls. Each family appends its own
/// declarations and invokes the next family. The last family passes all declarations to the macro `table`.
macro_rules! family {
    ($name:ident $($calls:tt)*) => { family! { @define ($) $name $($calls)* } };
    (@define ($d:tt) $name:ident $($calls:tt)*) => {
        macro_rules! $name {
            ([$d($d families:ident)*] $d($d before:tt)*) => {
                gather! { [$d($d families)*] $d($d before)* $($calls)* }
            };
        }
    };
}

macro_rules! gather {
    ([] $($calls:tt)*) => { table! { $($calls)* } };
    ([$family:ident $($rest:ident)*] $($calls:tt)*) => { $family! { [$($rest)*] $($calls)* } };
}

/// Calls `$see` for each object that a field of a call names.
macro_rules! names {
    ($see:ident, $field:ident, makes $thing:ident) => {
        $see(named(ObjectKind::$thing, $field, ObjectUse::Created))
    };
    ($see:ident, $field:ident, ends $thing:ident) => {
        $see(named(ObjectKind::$thing, $field, ObjectUse::Destroyed))
    };
    ($see:ident, $field:ident, uses $thing:ident) => {
        $see(named(ObjectKind::$thing, $field, ObjectUse::Used))
    };
    ($see:ident, $field:ident, reads $by:ident) => {
        names!(@buffer $see, $field, Read, $by)
    };
    ($see:ident, $field:ident, writes $by:ident) => {
        names!(@buffer $see, $field, Written, $by)
    };
    ($see:ident, $field:ident, updates $by:ident) => {
        names!(@buffer $see, $field, Updated, $by)
    };
    (@buffer $see:ident, $field:ident, $role:ident, $by:ident) => {
        $see(NamedObject { accessor: Accessor::$by, ..named(ObjectKind::Buffer, $field.buffer(), ObjectUse::$role) })
    };
    ($see:ident, $field:ident, given $function:ident) => { hip::named($field, $function, $see) };
    ($see:ident, $field:ident, maybe $thing:ident) => {
        if let Some(name) = $field {
            $see(named(ObjectKind::$thing, name, ObjectUse::Used))
        }
    };
    ($see:ident, $field:ident, arguments $kernel:ident) => { arguments($kernel, $field, $see) };
    ($see:ident, $field:ident, operands) => { operands($field, $see) };
    ($see:ident, $field:ident, $plain:ident $($default:tt)*) => { names!(@plain $plain) };
    (@plain node) => {};
    (@plain block) => {};
    (@plain number) => {};
    (@plain flag) => {};
    (@plain asynchronous) => {};
    (@plain choice) => {};
    (@plain text) => {};
    (@plain plain) => {};
}

/// Expands to the field that contains the stream of a call.
macro_rules! stream_field {
    ($found:ident, $field:ident, makes Stream) => {
        $found = Some($field)
    };
    ($found:ident, $field:ident, ends Stream) => {
        $found = Some($field)
    };
    ($found:ident, $field:ident, uses Stream) => {
        $found = Some($field)
    };
    ($found:ident, $field:ident, $($other:tt)*) => {};
}

/// Expands to the field that selects whether a call is asynchronous.
macro_rules! asynchronous_field {
    ($found:ident, $field:ident, asynchronous) => {
        $found = Some($field)
    };
    ($found:ident, $field:ident, $($other:tt)*) => {};
}

/// Expands to the functions that a call needs, from the row `makes` or `by_hand` of its declaration.
macro_rules! functions {
    ([$($function:literal),* $(,)?]) => { &[$($function),*] };
    ({ |$plan:ident| $by:expr => { $($case:pat => [$($function:literal),*]),* $(,)? } }, $given:ident) => {{
        let $plan = $given;
        match $by { $($case => &[$($function),*]),* }
    }};
    ({ |$plan:ident| ($first:expr, $else:expr) }, $given:ident) => {{
        let $plan = $given;
        match $first { [] => $else, functions => functions }
    }};
    ([$($function:literal),* $(,)?], $given:ident) => { &[$($function),*] };
}

/// Expands to the first function of each alternative in the row `makes` or `by_hand` of a declaration.
macro_rules! first {
    ([]) => { &[] };
    ([$first:literal $(, $more:literal)* $(,)?]) => { &[$first] };
    ({ |$plan:ident| $by:expr => { $($case:pat => [$first:literal $(, $more:literal)*]),* $(,)? } }) => {
        &[$($first),*]
    };
    ({ |$plan:ident| ($first:expr, $else:expr) }) => { &[] };
}

/// Expands to all functions of all alternatives in the row `makes` or `by_hand` of a declaration.
macro_rules! every {
    ([$($function:literal),* $(,)?]) => { &[$($function),*] };
    ({ |$plan:ident| $by:expr => { $($case:pat => [$($function:literal),*]),* $(,)? } }) => {
        &[$($($function),*),*]
    };
    ({ |$plan:ident| ($first:expr, $else:expr) }) => { &[] };
}

/// Expands to the keys that a field has in a case, with the types of their values.
macro_rules! key {
    ($field:ident, $type:ty, makes $thing:ident) => {
        const { &[Key::new(stringify!($field), KeyType::Name, true)] }
    };
    ($field:ident, $type:ty, ends Stream) => {
        const { &[Key::new(stringify!($field), KeyType::Name, false)] }
    };
    ($field:ident, $type:ty, uses Stream) => {
        const { &[Key::new(stringify!($field), KeyType::Name, false)] }
    };
    ($field:ident, $type:ty, ends $thing:ident) => {
        const { &[Key::new(stringify!($field), KeyType::Name, true)] }
    };
    ($field:ident, $type:ty, uses $thing:ident) => {
        const { &[Key::new(stringify!($field), KeyType::Name, true)] }
    };
    ($field:ident, $type:ty, text) => {
        const { &[Key::new(stringify!($field), KeyType::Name, true)] }
    };
    ($field:ident, $type:ty, flag) => {
        const { &[Key::new(stringify!($field), KeyType::Flag, false)] }
    };
    ($field:ident, $type:ty, number) => {
        const { &[Key::new(stringify!($field), KeyType::Number, true)] }
    };
    ($field:ident, $type:ty, number $default:expr) => {
        const { &[Key::new(stringify!($field), KeyType::Number, false)] }
    };
    ($field:ident, $type:ty, choice) => {
        const { &[Key::new(stringify!($field), KeyType::Word(choice_words::<$type>), true)] }
    };
    ($field:ident, $type:ty, choice $default:expr) => {
        const { &[Key::new(stringify!($field), KeyType::Word(choice_words::<$type>), false)] }
    };
    ($field:ident, $type:ty, reads $by:ident) => {
        const {
            const BOTH: &[Key; 2] = &[
                Key::new(stringify!($field), KeyType::Name, true),
                Key::new(concat!(stringify!($field), "_offset"), KeyType::Number, false),
            ];
            Key::buffer_keys(<$type as Buffers>::IS_PLACE, BOTH)
        }
    };
    ($field:ident, $type:ty, writes $by:ident) => {
        key!($field, $type, reads $by)
    };
    ($field:ident, $type:ty, updates $by:ident) => {
        key!($field, $type, reads $by)
    };
}

/// Expands to a list with the verb of a call; to an empty list if the call has no verb of its own.
macro_rules! verb {
    (none, $gives:expr, $($field:tt)*) => { &[] };
    (part [$name:ident $about:literal], $gives:expr, $($field:tt)*) => { &[] };
    (keys [$name:ident $about:literal], $gives:expr, $(($field:ident $type:ty; $($role:tt)*))*) => {
        &[Verb {
            name: stringify!($name),
            about: $about,
            gives: $gives,
            arguments: VerbArguments::Keys(&[$(key!($field, $type, $($role)*)),*]),
        }]
    };
    (value [$name:ident $about:literal], $gives:expr, $(($field:ident $type:ty; $($role:tt)*))?) => {
        &[Verb {
            name: stringify!($name),
            about: $about,
            gives: $gives,
            arguments: VerbArguments::Value(&[$(key!($field, $type, $($role)*))?]),
        }]
    };
    ($form:ident [$name:ident [$($key:ident),*] $about:literal], $gives:expr, $($field:tt)*) => {
        &[Verb {
            name: stringify!($name),
            about: $about,
            gives: $gives,
            arguments: VerbArguments::Other(&[$(stringify!($key)),*]),
        }]
    };
}

/// Reads the value of a field from its key.
macro_rules! value {
    ($from:ident, $field:ident, makes Stream) => {
        $from.new_stream(stringify!($field))
    };
    ($from:ident, $field:ident, ends Stream) => {
        $from.stream(stringify!($field))
    };
    ($from:ident, $field:ident, uses Stream) => {
        $from.stream(stringify!($field))
    };
    ($from:ident, $field:ident, makes $thing:ident) => {
        $from.thing(stringify!($field), ObjectKind::$thing)
    };
    ($from:ident, $field:ident, ends $thing:ident) => {
        $from.thing(stringify!($field), ObjectKind::$thing)
    };
    ($from:ident, $field:ident, uses $thing:ident) => {
        $from.thing(stringify!($field), ObjectKind::$thing)
    };
    ($from:ident, $field:ident, reads $by:ident) => {
        Buffers::read($from, [stringify!($field), concat!(stringify!($field), "_offset")])
    };
    ($from:ident, $field:ident, writes $by:ident) => {
        value!($from, $field, reads $by)
    };
    ($from:ident, $field:ident, updates $by:ident) => {
        value!($from, $field, reads $by)
    };
    ($from:ident, $field:ident, text) => {
        $from.text(stringify!($field))
    };
    ($from:ident, $field:ident, flag) => {
        $from.flag(stringify!($field))
    };
    ($from:ident, $field:ident, number) => {
        $from.number(stringify!($field), None)
    };
    ($from:ident, $field:ident, number $default:expr) => {
        $from.number(stringify!($field), Some($default))
    };
    ($from:ident, $field:ident, choice) => {
        $from.choice(stringify!($field), None)
    };
    ($from:ident, $field:ident, choice $default:expr) => {
        $from.choice(stringify!($field), Some($default))
    };
}

/// Appends a field with its value to `found`. Skips fields that do not have a key of their own in a case, for example
/// `operands` and `block`.
macro_rules! field {
    ($found:ident, $field:ident, makes $thing:ident) => {
        $found.push(Field::name(stringify!($field), $field, ObjectKind::$thing, ObjectUse::Created))
    };
    ($found:ident, $field:ident, ends $thing:ident) => {
        $found.push(Field::name(stringify!($field), $field, ObjectKind::$thing, ObjectUse::Destroyed))
    };
    ($found:ident, $field:ident, uses $thing:ident) => {
        $found.push(Field::name(stringify!($field), $field, ObjectKind::$thing, ObjectUse::Used))
    };
    ($found:ident, $field:ident, reads $by:ident) => {
        $field.fields([stringify!($field), concat!(stringify!($field), "_offset")], &mut $found)
    };
    ($found:ident, $field:ident, writes $by:ident) => {
        field!($found, $field, reads $by)
    };
    ($found:ident, $field:ident, updates $by:ident) => {
        field!($found, $field, reads $by)
    };
    ($found:ident, $field:ident, text) => {
        $found.push(Field::text(stringify!($field), $field))
    };
    ($found:ident, $field:ident, flag) => {
        $found.push(Field::plain(stringify!($field), FieldKind::Number, $field, !*$field))
    };
    ($found:ident, $field:ident, number) => {
        $found.push(Field::plain(stringify!($field), FieldKind::Number, $field, false))
    };
    ($found:ident, $field:ident, number $default:expr) => {
        $found.push(Field::plain(stringify!($field), FieldKind::Number, $field, *$field == $default))
    };
    ($found:ident, $field:ident, choice) => {
        $found.push(Field::plain(stringify!($field), FieldKind::Word, $field.word(), false))
    };
    ($found:ident, $field:ident, choice $default:expr) => {
        $found.push(Field::plain(
            stringify!($field),
            FieldKind::Word,
            $field.word(),
            *$field == $default,
        ))
    };
    ($found:ident, $field:ident, $($other:tt)*) => {};
}

/// Reads a call from a step, if the step has the verb of this call.
macro_rules! read {
    ($verb:ident, $from:ident, $call:ident, value $name:ident, []) => {
        if $verb == stringify!($name) {
            $from.nothing();
            return Some(Call::$call {});
        }
    };
    ($verb:ident, $from:ident, $call:ident, by_hand $name:ident, $fields:tt) => {
        if $verb == stringify!($name) {
            return $from.$name();
        }
    };
    ($verb:ident, $from:ident, $call:ident, block $name:ident, $fields:tt) => {
        if $verb == stringify!($name) {
            return $from.$name();
        }
    };
    ($verb:ident, $from:ident, $call:ident, part $name:ident, $fields:tt) => {};
    ($verb:ident, $from:ident, $call:ident, none, $fields:tt) => {};
    ($verb:ident, $from:ident, $call:ident, $form:ident $name:ident, [$(($field:ident $($role:tt)*))*]) => {
        if $verb == stringify!($name) {
            // All fields are read before the first `?`, so that all mistakes are reported.
            $(let $field = value!($from, $field, $($role)*);)*
            $(let $field = $field?;)*
            return Some(Call::$call { $($field),* });
        }
    };
}

macro_rules! write {
    ($to:ident, $call:ident, keys $name:ident, [$($field:ident)*]) => {
        $to.keys(stringify!($name), $call.fields())
    };
    ($to:ident, $call:ident, value $name:ident, [$($field:ident)*]) => {
        $to.value(stringify!($name), $call.fields().pop())
    };
    ($to:ident, $call:ident, by_hand $name:ident, [$($field:ident)*]) => { $to.$name($($field),*) };
    ($to:ident, $call:ident, part $name:ident, [$($field:ident)*]) => { $to.$name($($field),*) };
    ($to:ident, $call:ident, block $name:ident, $fields:tt) => { String::new() };
    ($to:ident, $call:ident, none, $fields:tt) => { String::new() };
}

/// Declares the method that reads a verb of the form `by_hand` or `block`.
macro_rules! reader {
    (by_hand $name:ident) => {
        /// Reads the call with this verb.
        fn $name(&mut self) -> Option<Call>;
    };
    (block $name:ident) => { reader!(by_hand $name); };
    ($other:ident $($name:ident)?) => {};
}

/// Declares the method that writes a call of the form `by_hand` or `part`.
macro_rules! writer {
    (by_hand [$name:ident] $($field:ident: $type:ty),*) => {
        /// Writes the call with this verb.
        fn $name(&self, $($field: &$type),*) -> String;
    };
    (part [$name:ident] $($field:ident: $type:ty),*) => {
        writer!(by_hand [$name] $($field: $type),*);
    };
    ($other:ident [$($name:ident)?] $($field:ident: $type:ty),*) => {};
}

/// Expands to one part of a call's effect, for example its effect on memory.
macro_rules! effect {
    (memory, nothing) => { MemoryEffect::Nothing };
    (captures, nothing) => { CaptureEffect::Nothing };
    (order, nothing) => { OrderEffect::Nothing };
    (work_stream, nothing) => { WorkStream::NoStream };
    (over, nothing) => { CompletedOnReturn::Nothing };
    (memory, { only memory: $it:expr }) => { $it };
    (captures, { only captures: $it:expr }) => { $it };
    (order, { only order: $it:expr }) => { $it };
    ($part:ident, { only $other:ident: $it:expr }) => { effect!($part, nothing) };
    ($part:ident, {
        memory: $memory:expr, captures: $captures:expr, order: $order:expr, work_stream: $work_stream:expr, over: $over:expr $(,)?
    }) => {
        effect!(@$part ($memory) ($captures) ($order) ($work_stream) ($over))
    };
    (@memory ($it:expr) $c:tt $o:tt $w:tt $v:tt) => { $it };
    (@captures $m:tt ($it:expr) $o:tt $w:tt $v:tt) => { $it };
    (@order $m:tt $c:tt ($it:expr) $w:tt $v:tt) => { $it };
    (@work_stream $m:tt $c:tt $o:tt ($it:expr) $v:tt) => { $it };
    (@over $m:tt $c:tt $o:tt $w:tt ($it:expr)) => { $it };
}

macro_rules! table {
    ($(
        $(#[$about:meta])*
        $call:ident $({
            $($(#[$attribute:meta])* $field:ident: $type:ty as $role:ident $(($($of:tt)*))?),* $(,)?
        })?
            verb: $form:ident $($verb:ident $([$($key:ident),*])? $says:literal)?;
            makes: $makes:tt;
            in_capture: $in_capture:expr;
            by_hand: $by_hand:tt;
            gives: $gives:expr;
            effect: $effect:tt;
            words: ($($words:tt)*);
            cpp: $cpp:expr;
    )*) => {
        /// A call with its arguments, or a block of calls.
        #[allow(missing_docs, reason = "the fields are the arguments of the call that the variant names")]
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "call", rename_all = "snake_case")]
        pub enum Call {
            $($(#[$about])* $call $({ $($(#[$attribute])* $field: $type,)* })?,)*
        }

        /// Reader of steps, implemented in the crate `case`. If each YAML key of a verb is a field of its call, the
        /// methods of [`Keys`] read the verb. Each other verb has a method of its own here, which reads the whole call.
        pub trait ReadVerb: Keys {
            $(reader! { $form $($verb)? })*
        }

        /// Writer of steps, implemented in the crate `case`. If each YAML key of a verb is a field of its call, `keys`
        /// or `value` writes the verb. Each other verb has a method of its own here, which writes the whole call.
        #[allow(
            clippy::too_many_arguments,
            clippy::ptr_arg,
            clippy::borrowed_box,
            reason = "the parameters are the fields of calls, with their types"
        )]
        pub trait WriteVerb {
            /// Writes a step whose verb has a mapping as its value.
            fn keys(&self, verb: &str, keys: Vec<Field<'_>>) -> String;
            /// Writes a step whose verb has a single value, or no value.
            fn value(&self, verb: &str, value: Option<Field<'_>>) -> String;
            $(writer! { $form [$($verb)?] $($($field: $type),*)? })*
        }

        #[allow(unused_variables, unused_mut, unused_assignments, reason = "each call has its own fields")]
        impl Call {
            fn each_name<'a>(&'a self, see: &mut dyn FnMut(NamedObject<'a>)) {
                match self {
                    $(Call::$call { $($($field,)*)? } => {
                        $($(names!(see, $field, $role $($($of)*)?);)*)?
                    })*
                }
            }

            /// Returns a mutable reference to the name of the call's stream; `None` if the call names no stream.
            pub fn stream_mut(&mut self) -> Option<&mut Name> {
                match self {
                    $(Call::$call { $($($field,)*)? } => {
                        let mut found = None;
                        $($(stream_field!(found, $field, $role $($($of)*)?);)*)?
                        found
                    })*
                }
            }

            /// Returns the functions that the call needs, or the action of the host. The first function returns the
            /// status of the call.
            fn needed_functions(&self, given: &Plan) -> &'static [&'static str] {
                match self {
                    $(Call::$call { $($($field,)*)? } => functions!($makes, given),)*
                }
            }

            /// Returns the functions that add a node with the same effect to a graph; an empty list if HIP has none.
            pub fn by_hand(&self) -> &'static [&'static str] {
                match self {
                    $(Call::$call { .. } => functions!($by_hand),)*
                }
            }

            /// Returns the effect of a stream capture on the call.
            pub fn in_capture(&self) -> CaptureHandling {
                use CaptureHandling::{Node, Now, Refused};
                match self {
                    $(Call::$call { $($($field,)*)? } => $in_capture,)*
                }
            }

            /// Returns the name of the call in reports; an empty text for calls that only set-up, verification and
            /// teardown contain.
            pub fn words(&self) -> String {
                match self {
                    $(Call::$call { $($($field,)*)? } => format!($($words)*),)*
                }
            }

            /// Reads a call from a step with the given verb. Returns `None` after a mistake, which `from` has reported.
            pub fn read(verb: &str, from: &mut impl ReadVerb) -> Option<Call> {
                $(read! {
                    verb, from, $call, $form $($verb)?, [$($(($field $role $($($of)*)?))*)?]
                })*
                None
            }

            /// Returns the call as a step of a case; an empty text for blocks and for calls without a verb.
            pub fn write(&self, to: &impl WriteVerb) -> String {
                let call = self;
                match self {
                    $(Call::$call { $($($field,)*)? } => {
                        write!(to, call, $form $($verb)?, [$($($field)*)?])
                    })*
                }
            }

            /// Returns the fields that have a key of their own in a case, in the order of the declaration.
            pub fn fields(&self) -> Vec<Field<'_>> {
                let mut found = Vec::new();
                match self {
                    $(Call::$call { $($($field,)*)? } => {
                        $($(field!(found, $field, $role $($($of)*)?);)*)?
                    })*
                }
                found
            }

            /// Returns the form of the call in C++.
            pub fn cpp(&self) -> CppForm {
                use CppForm::*;
                match self {
                    $(Call::$call { .. } => $cpp,)*
                }
            }

            /// Returns the effect of the call on memory.
            pub fn memory_effect(&self) -> MemoryEffect<'_> {
                use MemoryEffect::*;
                match self {
                    $(Call::$call { $($($field,)*)? } => effect!(memory, $effect),)*
                }
            }

            /// Returns the effect of the call on captures and graphs.
            pub fn capture_effect(&self) -> CaptureEffect<'_> {
                use CaptureEffect::*;
                match self {
                    $(Call::$call { $($($field,)*)? } => effect!(captures, $effect),)*
                }
            }

            /// Returns the effect of the call on the happens-before order.
            pub fn order_effect(&self) -> OrderEffect<'_> {
                use OrderEffect::*;
                match self {
                    $(Call::$call { $($($field,)*)? } => effect!(order, $effect),)*
                }
            }

            /// Returns the stream that executes the work of the call.
            pub fn work_stream(&self) -> WorkStream<'_> {
                use WorkStream::*;
                match self {
                    $(Call::$call { $($($field,)*)? } => effect!(work_stream, $effect),)*
                }
            }

            /// Returns the part of the work that has completed when the call returns.
            pub(crate) fn completed_on_return(&self) -> CompletedOnReturn<'_> {
                use CompletedOnReturn::*;
                match self {
                    $(Call::$call { $($($field,)*)? } => effect!(over, $effect),)*
                }
            }

            /// Returns the field that selects whether the host continues before the work has completed; `None` if the
            /// call has no such field.
            pub fn asynchronous_mut(&mut self) -> Option<&mut dyn Asynchronous> {
                match self {
                    $(Call::$call { $($($field,)*)? } => {
                        let mut found: Option<&mut dyn Asynchronous> = None;
                        $($(asynchronous_field!(found, $field, $role $($($of)*)?);)*)?
                        found
                    })*
                }
            }
        }

        /// Verbs of each call, in the order of the declarations; an empty list for a call without a verb of its own.
        const OWN_VERBS: &[&[Verb]] = {
            use ValueKind::{Anything, Nothing, Number, Word};
            &[$(verb!(
                $form $([$verb $([$($key),*])? $says])?, $gives,
                $($(($field $type; $role $($($of)*)?))*)?
            ),)*]
        };

        /// C++ form of each call, with the names of the fields of the call.
        const IN_CPP: &[(CppForm, &[&str])] = {
            use CppForm::*;
            &[$(($cpp, &[$($(stringify!($field)),*)?])),*]
        };

        /// For each call, two lists: the first function of each alternative in the row `makes`, and that of each
        /// alternative in the row `by_hand`.
        const FIRST_FUNCTIONS: &[&[&str]] = &[$(first!($makes), first!($by_hand),)*];

        /// For each call, two lists: all functions in the row `makes`, and all functions in the row `by_hand`.
        const ALL_FUNCTIONS: &[&[&str]] = &[$(every!($makes), every!($by_hand),)*];
    };
}
