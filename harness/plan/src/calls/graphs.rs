family! { graphs

    /// Creates a graph, then adds `nodes` empty nodes, each after the previous one.
    EmptyGraph { graph: Name as makes(Graph), nodes: u32 as number }
        verb: keys empty_graph
            "create a graph with a chain of this many empty nodes; calls with this graph as `graph` add a node after \
             the last one";
        makes: ["hipGraphAddEmptyNode", "hipGraphCreate"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: { only captures: EmptyGraph(graph) };
        words: ("graph of {nodes} empty nodes"); cpp: Graph;

    /// Adds a node that does the same as the call `node` to a graph that [`EmptyGraph`](Call::EmptyGraph) created. The
    /// new node follows the last node of the graph. The row `by_hand` in the declaration of `node` names the HIP
    /// function that adds the node.
    AddNode { graph: Name as uses(Graph), node: Box<Call> as node }
        verb: part node "graph";
        makes: { |plan| (node.by_hand(), node.needed_functions(plan)) };
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("{} as a node of {graph}", node.words()); cpp: Graph;

    /// Queries the nodes of a graph. The returned value is the number of nodes.
    GraphNodeCount { graph: Name as uses(Graph) }
        verb: value node_count "return the number of nodes of a graph";
        makes: ["hipGraphGetNodes"];
        in_capture: Now; by_hand: []; gives: Number(&[]); effect: { only captures: InspectGraph(graph) };
        words: ("node count of {graph}"); cpp: Function("hipGraphGetNodes({graph}, nullptr, &{nodes: size_t})");

    /// Adds a node that executes the current nodes of the graph `child`. The node follows the last node of `graph`,
    /// which [`EmptyGraph`](Call::EmptyGraph) created.
    GraphAddChild { graph: Name as uses(Graph), child: Name as uses(Graph) }
        verb: keys child_graph "add a child graph node for the graph `child` after the last node";
        makes: ["hipGraphAddChildGraphNode"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: { only captures: AddChild { graph, child } };
        words: ("{child} as a node of {graph}"); cpp: Graph;

    GraphClone { clone: Name as makes(Graph), graph: Name as uses(Graph) }
        verb: keys clone_graph "clone a graph in its current state";
        makes: ["hipGraphClone"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: { only captures: Clone { clone, graph } };
        words: ("clone of {graph}"); cpp: Function("hipGraphClone(&{clone}, {graph})");

    /// Queries the root nodes of a graph. The returned value is the number of root nodes.
    GraphRootCount { graph: Name as uses(Graph) }
        verb: value root_count "return the number of nodes of a graph that have no predecessor";
        makes: ["hipGraphGetRootNodes"];
        in_capture: Now; by_hand: []; gives: Number(&[]); effect: { only captures: InspectGraph(graph) };
        words: ("root count of {graph}"); cpp: Function("hipGraphGetRootNodes({graph}, nullptr, &{roots: size_t})");

    /// Queries the edges of a graph. The returned value is the number of edges.
    GraphEdgeCount { graph: Name as uses(Graph) }
        verb: value edge_count "return the number of edges between the nodes of a graph";
        makes: ["hipGraphGetEdges"];
        in_capture: Now; by_hand: []; gives: Number(&[]); effect: { only captures: InspectGraph(graph) };
        words: ("edge count of {graph}");
        cpp: Function("hipGraphGetEdges({graph}, nullptr, nullptr, &{edges: size_t})");

    GraphInstantiate { exec: Name as makes(Exec), graph: Name as uses(Graph) }
        verb: keys instantiate "create an executable graph";
        makes: ["hipGraphInstantiate"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: { only captures: Instantiate { exec, graph } };
        words: ("instantiation of {exec}"); cpp: Graph;

    GraphLaunch { exec: Name as uses(Exec), stream: Name as uses(Stream) }
        verb: keys launch_graph "launch an executable graph";
        makes: ["hipGraphLaunch"];
        in_capture: Refused; by_hand: []; gives: Nothing;
        effect: {
            memory: Replay(exec),
            captures: Nothing,
            order: Replay { exec, stream },
            work_stream: Stream(stream),
            over: Nothing,
        };
        words: ("launch of graph {exec}"); cpp: Function("hipGraphLaunch({exec}, {stream})");

    /// Updates an executable graph to the current nodes of a graph. The returned value is `success` or the reason of
    /// the failure. Cases cannot check the returned value.
    GraphExecUpdate { exec: Name as uses(Exec), graph: Name as uses(Graph) }
        verb: keys update_graph "update an executable graph from a graph";
        makes: ["hipGraphExecUpdate"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: { only captures: Update { exec, graph } };
        words: ("update of {exec}"); cpp: Graph;

    GraphExecDestroy { exec: Name as ends(Exec) }
        verb: value destroy_exec "destroy an executable graph";
        makes: ["hipGraphExecDestroy"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: { only captures: DestroyExec(exec) };
        words: ("destruction of {exec}"); cpp: Function("hipGraphExecDestroy({exec})");

    GraphDestroy { graph: Name as ends(Graph) }
        verb: value destroy_graph "destroy a graph";
        makes: ["hipGraphDestroy"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: { only captures: DestroyGraph(graph) };
        words: ("destruction of {graph}"); cpp: Function("hipGraphDestroy({graph})");
}
