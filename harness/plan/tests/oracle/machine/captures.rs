//! Rules of stream capture, and graph launches, in the independent implementation.

use plan::{Call, CopyApi, HostFuncApi, Step};

use super::{Action, Event, Machine, Node, declared};

impl Machine<'_> {
    /// Reports an illegal operation if the call uses a destroyed stream.
    pub(super) fn refuse_destroyed(&mut self, step: &Step) {
        let named = step.call.stream().map(str::to_owned);
        if let Call::StreamCreate { stream } = &step.call {
            self.destroyed.remove(stream);
        } else if [named, self.stream_of(&step.call)]
            .iter()
            .flatten()
            .any(|stream| self.destroyed.contains(stream))
        {
            self.illegal.push((step.line, "a stream that was destroyed".to_owned()));
        }
    }

    /// Reports an illegal operation if an open capture forbids the call: the statuses 900 to 908 of hip_runtime_api.h.
    pub(super) fn refuse(&mut self, step: &Step) {
        let event_in_capture =
            |event: &String| matches!(self.events.get(event), Some(Event::Capture { .. }));
        let why = match &step.call {
            Call::BeginCapture { stream, .. } if stream == "default" => "the null stream",
            Call::BeginCapture { stream, .. } if self.capture_of(stream).is_some() => {
                "captured already"
            }
            Call::EndCapture { stream, .. } => match self.captures.get(stream) {
                None => return,
                // hipErrorStreamCaptureUnjoined: "a fork that was not joined to the primary stream"
                Some(capture) => {
                    let mut joined = capture.streams[stream].clone();
                    let mut next: Vec<usize> = joined.iter().copied().collect();
                    while let Some(node) = next.pop() {
                        let before = capture.nodes[node].after.iter();
                        next.extend(before.copied().filter(|node| joined.insert(*node)));
                    }
                    let all = (0..capture.nodes.len()).all(|node| joined.contains(&node));
                    if all { return } else { "a fork is not joined" }
                }
            },
            Call::StreamWaitEvent { stream, event } => {
                let own = self.capture_of(stream).map(|origin| self.captures[&origin].number);
                match self.events.get(event) {
                    None => return,
                    Some(Event::Operation(_)) if own.is_some() => "hipErrorStreamCaptureIsolation",
                    Some(Event::Operation(_)) => return,
                    Some(Event::Capture { number, .. }) => {
                        let open = self.captures.values().any(|capture| capture.number == *number);
                        if !open {
                            "hipErrorCapturedEvent"
                        } else if stream == "default" {
                            "the null stream"
                        } else if own.is_some_and(|own| own != *number) {
                            "hipErrorStreamCaptureMerge"
                        } else {
                            return;
                        }
                    }
                }
            }
            Call::EventSynchronize { event } | Call::EventQuery { event }
                if event_in_capture(event) =>
            {
                "hipErrorCapturedEvent"
            }
            Call::EventElapsed { start, end }
                if event_in_capture(start) || event_in_capture(end) =>
            {
                "hipErrorCapturedEvent"
            }
            Call::StreamSynchronize { stream }
            | Call::StreamQuery { stream }
            | Call::GraphLaunch { stream, .. }
            | Call::HostFunc { stream, api: HostFuncApi::AddCallback, .. }
                if self.capture_of(stream).is_some() =>
            {
                "hipErrorStreamCaptureUnsupported"
            }
            _ => return,
        };
        self.no(step, why);
    }

    pub(super) fn record(&mut self, step: &Step, stream: &str, origin: &str) {
        let blocks = self.blocks.clone();
        let capture = self.captures.get_mut(origin).expect("it was looked up");
        let frontier = capture.streams.get_mut(stream).expect("it was looked up");
        let after = std::mem::replace(frontier, [capture.nodes.len()].into());
        capture.nodes.push(Node { call: step.call.clone(), line: step.line, after, blocks });
    }

    /// Executes each node of a graph after the nodes that precede it. All nodes follow the earlier work of the stream
    /// and precede its later work.
    pub(super) fn launch(&mut self, step: &Step, occurrence: u32, exec: &str, stream: &str) {
        let Some(nodes) = self.execs.get(exec).cloned() else {
            return self.no(step, "no such graph");
        };
        let start = self.command(step, stream, Action::Nothing, None);
        let mut made: Vec<usize> = Vec::new();
        for node in nodes {
            let names: Vec<String> =
                declared(&node.call).into_iter().map(|(name, ..)| name).collect();
            for name in &names {
                // A node may use only the memory that existed when it was captured.
                if self.blocks.get(name) != node.blocks.get(name) || !self.blocks.contains_key(name)
                {
                    self.no(step, format!("{name} is other memory now"));
                }
            }
            if let Call::RandGenerate { generator, .. } = &node.call
                && !self.generators.contains_key(generator)
            {
                self.no(step, "no such generator");
            }
            let after = [start].into_iter().chain(node.after.iter().map(|n| made[*n])).collect();
            let does = Action::Call(node.call.clone(), occurrence);
            made.push(self.add(node.line, after, does, Some(&node.call)));
        }
        let end =
            self.add(step.line, made.into_iter().chain([start]).collect(), Action::Nothing, None);
        self.streams.entry(stream.to_owned()).or_default().last = Some(end);
    }
}

pub(super) fn becomes_node(call: &Call) -> bool {
    matches!(
        call,
        Call::Copy { api: CopyApi::MemcpyAsync | CopyApi::MemcpyWithStream, .. }
            | Call::Copy2d { asynchronous: true, .. }
            | Call::Copy3d { asynchronous: true, .. }
            | Call::SetRows { asynchronous: true, .. }
            | Call::Set { asynchronous: true, .. }
            | Call::SetHalves { .. }
            | Call::Launch { .. }
            | Call::HostFunc { api: HostFuncApi::LaunchHostFunc, .. }
            | Call::RandGenerate { .. }
            | Call::BlasltMatmul { .. }
            | Call::RocblasGemm { .. }
    )
}
