package millrace.streams.simulation;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import millrace.streams.TopologyParts;
import org.jspecify.annotations.Nullable;

/// One process of the service: an engine, and a stream thread with its tasks and its transaction.
final class Process implements Task.Host {
    final String name;
    private final World world;
    private final Map<Integer, Task> tasks = new TreeMap<>();
    private final Map<String, String> settings;
    private @Nullable TopologyParts parts;
    private Broker.@Nullable Transaction transaction;
    private @Nullable SimulatedEngine engine;
    private int lives;
    /// Prompts that were pending when their task was opened: they are under way at once, whatever the bound.
    int resumed;
    /// The process does not run, though nobody has told the broker.
    boolean asleep;
    /// The engine has said that only a new process helps.
    boolean failing;

    Process(String name, World world, Map<String, String> settings) {
        this.name = name;
        this.world = world;
        this.settings = settings;
        start();
    }

    @Override
    public Broker broker() {
        return world.broker;
    }

    @Override
    public Broker.Transaction transaction() {
        Broker.Transaction current = transaction;
        if (current == null) {
            current = new Broker.Transaction(name);
            transaction = current;
        }
        return current;
    }

    @Override
    public long nowMs() {
        return world.clock.millis();
    }

    @Override
    public long steadyMs() {
        return World.START_MS + world.nanos() / 1_000_000L;
    }

    @Override
    public Bug bug() {
        return world.bug;
    }

    @Override
    public void beforeSend() {
        if (world.sendsUntilFailure >= 0 && world.sendsUntilFailure-- == 0) {
            throw new World.Injected("a record cannot be sent");
        }
    }

    /// Names the process and its present life, as the leaves that it writes do.
    String instance() {
        return name + "." + lives;
    }

    boolean isUp() {
        return engine != null;
    }

    boolean isAwake() {
        return engine != null && !asleep;
    }

    SimulatedEngine engine() {
        if (engine == null) {
            throw new IllegalStateException(name + " is down");
        }
        return engine;
    }

    Map<Integer, Task> tasks() {
        return tasks;
    }

    /// Starts the process, with no task yet.
    void start() {
        start(Map.of());
    }

    void start(Map<String, String> more) {
        lives++;
        engine = new SimulatedEngine(world.bug, lives);
        failing = false;
        asleep = false;
        resumed = 0;
        Map<String, String> all = new TreeMap<>(settings);
        all.putAll(more);
        parts = TopologyParts.of(new TopologyParts.Surroundings(
                instance(), engine, world.clock, world::nanos, world::pass, () -> world.registryDown, world::lastLeaf, world.salts,
                world.signer(), world.previousSigner(), () -> failing = true, world.alarms::add, all));
    }

    /// Takes a partition over.
    void open(int partition, int generation) {
        if (parts == null) {
            throw new IllegalStateException(name + " is down");
        }
        Task lost = tasks.remove(partition);
        if (lost != null) {
            lost.close();
        }
        Task task = new Task(this, parts, partition, generation);
        task.open();
        resumed += task.pending();
        tasks.put(partition, task);
    }

    /// Lets the thread that watches for alarms run.
    void watchAlarms() {
        if (parts != null) {
            parts.watchAlarms();
        }
    }

    /// One round of the stream thread: takes up to so many records of each partition and lets time act.
    void round(int records) {
        for (Task task : List.copyOf(tasks.values())) {
            List<Broker.Entry> input = world.broker.log(TopologyParts.PROMPTS, task.partition).entries;
            // What was polled is processed; a hold keeps from the next poll.
            int polled = holdsPrompts() ? 0 : records;
            for (int i = 0; i < polled && task.position < input.size(); i++) {
                task.process(new Broker.Placed(task.position, input.get((int) task.position)));
            }
            List<Broker.Entry> orders = world.broker.log(TopologyParts.CONTROL, task.partition).entries;
            if (records > 0 && task.orders < orders.size()) {
                task.order(new Broker.Placed(task.orders, orders.get((int) task.orders)));
            }
            List<Broker.Entry> cancels = world.broker.log(TopologyParts.CANCELS, task.partition).entries;
            if (records > 0 && task.cancels < cancels.size()) {
                task.cancel(new Broker.Placed(task.cancels, cancels.get((int) task.cancels)));
            }
            task.punctuate();
        }
    }

    boolean holdsPrompts() {
        return parts != null && parts.holdsPrompts();
    }

    boolean wantsCommit() {
        return tasks.values().stream().anyMatch(task -> task.commitRequested);
    }

    /// Commits what was done since the last time.
    ///
    /// @return false when the broker refuses: the process lost a partition, or the transaction
    boolean commit() {
        Broker.Transaction current = transaction;
        boolean moved = tasks.values().stream().anyMatch(task -> task.position != world.broker.committedOffset(task.partition)
                || task.orders != world.broker.committedOrders(task.partition)
                || task.cancels != world.broker.committedCancels(task.partition));
        if (current == null && !moved) {
            return true;
        }
        current = transaction();
        boolean fenced = current.state != Broker.State.OPEN
                || world.bug != Bug.FENCES_NOBODY
                        && tasks.values().stream().anyMatch(task -> !world.broker.isOwner(task.partition, task.generation));
        if (fenced) {
            dropTasks();
            return false;
        }
        for (Task task : tasks.values()) {
            long ahead = world.bug == Bug.COMMITS_AHEAD
                    && task.position < world.broker.log(TopologyParts.PROMPTS, task.partition).entries.size() ? 1 : 0;
            current.consumed(task.partition, task.position + ahead);
            current.ordersConsumed(task.partition, task.orders);
            current.cancelsConsumed(task.partition, task.cancels);
        }
        world.broker.commit(current, world.nanos());
        transaction = null;
        tasks.values().forEach(Task::committed);
        return true;
    }

    private void abort() {
        Broker.Transaction current = transaction;
        if (current != null && current.state == Broker.State.OPEN) {
            world.broker.abort(current);
        }
        transaction = null;
    }

    /// The broker gives up waiting for the process's transaction.
    ///
    /// @return whether it had one
    boolean expireTransaction() {
        Broker.Transaction current = transaction;
        if (current == null || current.state != Broker.State.OPEN) {
            return false;
        }
        world.broker.abort(current);
        return true;
    }

    /// All tasks are closed and what they did since the last commit is taken back; the engine goes on.
    void dropTasks() {
        abort();
        tasks.values().forEach(Task::close);
        tasks.clear();
    }

    /// What was done since the last commit is taken back, and the same processors begin anew on what is committed.
    ///
    /// @return false when one of them cannot: then the process has no task any more
    boolean revive() {
        abort();
        tasks.values().forEach(Task::close);
        try {
            tasks.values().forEach(task -> {
                task.open();
                resumed += task.pending();
            });
            return true;
        } catch (World.Injected e) {
            dropTasks();
            return false;
        }
    }

    /// Gives one task up in an orderly way.
    ///
    /// @return whether the commit before it was accepted
    boolean release(int partition) {
        if (!commit()) {
            return false;
        }
        Task task = tasks.remove(partition);
        if (task != null) {
            task.close();
        }
        return true;
    }

    /// Stops in an orderly way.
    void stop() {
        if (commit()) {
            tasks.values().forEach(Task::close);
            tasks.clear();
        }
        watchAlarms();
        engine().close();
        engine = null;
    }

    /// @return what was done
    String fallAsleep() {
        asleep = true;
        return name + " falls asleep";
    }

    void restart() {
        crash();
        start();
    }

    /// The process is gone, and with it all that it had in memory.
    void crash() {
        abort();
        tasks.clear();
        engine = null;
        asleep = false;
    }
}
