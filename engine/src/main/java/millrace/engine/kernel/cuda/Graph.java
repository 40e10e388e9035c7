package millrace.engine.kernel.cuda;

import jcuda.driver.CUgraphExec;

/// Launches that were captured once and are queued again as one.
///
/// What they read and write lies where it lay; what changes from one run to the next lies in buffers of the device.
public final class Graph {
    private final String name;
    private final CUgraphExec executable;

    Graph(String name, CUgraphExec executable) {
        this.name = name;
        this.executable = executable;
    }

    /// For messages.
    public String name() {
        return name;
    }

    CUgraphExec executable() {
        return executable;
    }
}
