package millrace.streams.simulation;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import millrace.streams.TopologyParts;
import millrace.streams.simulation.SimulatedEngine.Mishap;
import org.jspecify.annotations.Nullable;

/// One run: processes, a broker and prompts, and what happens to them, all drawn from one seed.
final class Simulation {
    /// @param actions how many things happen before everything is healed and runs dry
    /// @param faults whether anything goes wrong
    record Options(int actions, boolean faults, Bug bug) {}

    private static final int PROCESSES = 2;
    private static final long DAY_MS = 86_400_000L;
    private static final int SETTLING_ROUNDS = 300;
    /// Prompts under way at which a process takes in no more, and how many of a partition come with one poll.
    private static final int HOLD_AT = 4;
    private static final int MOST_POLLED = 3;
    /// Long enough for the last checkpoint.
    private static final int CALM_ROUNDS = 5;

    final World world;
    final List<Inputs.Input> inputs = new ArrayList<>();
    private final List<List<Inputs.Input>> byPartition = List.of(new ArrayList<>(), new ArrayList<>(), new ArrayList<>());
    final Orders orders;
    final Cancellations cancellations;
    /// What happened, in order.
    final List<String> schedule = new ArrayList<>();
    private final SplittableRandom random;
    private final Inputs prompts;
    private final Options options;
    private final List<Process> processes = new ArrayList<>();
    private final @Nullable Process[] owners = new Process[Broker.PARTITIONS];
    private final boolean[] stateLost = new boolean[Broker.PARTITIONS];
    /// Whether the order in which prompts of one partition were first read may differ from that of the topic.
    boolean registryFailed;
    /// What answers may honestly fail with.
    boolean enginesFailedPrompts;
    /// Whether anything was done that the service is to raise an alarm for.
    boolean alarming;
    private final Invariants invariants = new Invariants(this);

    Simulation(long seed, Options options) {
        this.options = options;
        world = new World(seed, options.bug());
        random = world.random;
        prompts = new Inputs(random.split());
        orders = new Orders(world);
        cancellations = new Cancellations(world, random.split());
        for (int i = 0; i < PROCESSES; i++) {
            processes.add(new Process("process-" + i, world, Map.of(
                    "audit.checkpoint.interval.ms", options.faults() ? "2000" : "60000", "intake.dedup.retention.ms",
                    Long.toString(31 * DAY_MS), "inflight.max", Integer.toString(options.actions() > 0 ? HOLD_AT : 64))));
        }
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            open(partition, processes.get(partition % PROCESSES));
        }
    }

    /// Runs the schedule, heals everything and lets it run dry. Checks what must hold at any time on the way.
    ///
    /// @throws Violation for the first invariant that does not hold
    void run() {
        for (int i = 0; i < options.actions(); i++) {
            world.pass(random.nextInt(30));
            act();
        }
        invariants.checkCommitted();
        settle();
        invariants.checkCommitted();
    }

    /// Takes these prompts, without any fault, and lets them run dry.
    static Simulation faultFree(long seed, List<Inputs.Input> inputs) {
        Simulation calm = new Simulation(seed, new Options(0, false, Bug.NONE));
        inputs.forEach(calm::produce);
        calm.settle();
        return calm;
    }

    /// Takes so many prompts of every kind, without any fault, as they come.
    static Simulation soak(long seed, int requests) {
        Simulation calm = new Simulation(seed, new Options(0, true, Bug.NONE));
        for (int i = 0; i < requests; i++) {
            calm.produce(calm.prompts.next(calm.world.clock.millis()));
            if (i % 50 == 0) {
                calm.world.pass(5);
                calm.processes.forEach(process -> {
                    process.round(40);
                    process.engine().step(calm.random, 20);
                    process.watchAlarms();
                    process.commit();
                });
            }
        }
        calm.settle();
        return calm;
    }

    private void produce(Inputs.Input input) {
        inputs.add(input);
        byPartition.get(input.partition()).add(input);
        world.broker.log(TopologyParts.PROMPTS, input.partition()).append(input.entry());
    }

    private void say(String what) {
        schedule.add(what);
    }

    private void act() {
        int roll = random.nextInt(options.faults() ? 100 : 84);
        if (roll < 4) {
            say(cancellations.give(inputs, prompts));
        } else if (roll < 24) {
            Inputs.Input input = prompts.next(world.clock.millis());
            say("produce " + input.kind() + " to " + input.partition());
            produce(input);
        } else if (roll < 52) {
            round(awake());
        } else if (roll < 70) {
            Process process = awake();
            if (process != null) {
                say(process.name + " engine steps");
                process.engine().step(random, 1 + random.nextInt(4));
            }
        } else if (roll < 80) {
            commit(awake());
        } else if (roll < 82) {
            say("time passes");
            world.pass(random.nextInt(2_000));
        } else if (roll < 84) {
            orders.give(random.nextInt(Broker.PARTITIONS)).ifPresent(this::say);
        } else {
            fault();
        }
    }

    private @Nullable Process awake() {
        List<Process> awake = processes.stream().filter(Process::isAwake).toList();
        return awake.isEmpty() ? null : awake.get(random.nextInt(awake.size()));
    }

    private void round(@Nullable Process process) {
        if (process == null || !process.isUp()) {
            return;
        }
        say(process.name + " round");
        try {
            process.round(random.nextInt(MOST_POLLED + 1));
            // Beside what is under way: one poll of each partition, and what was pending when a task was opened.
            int most = HOLD_AT + Broker.PARTITIONS * MOST_POLLED + process.resumed;
            if (options.actions() > 0 && process.engine().load() > most) {
                throw new Violation("I6", process.name + " has " + process.engine().load() + " prompts under way of " + most, null);
            }
        } catch (World.Injected e) {
            say(process.name + " loses its thread: " + e.getMessage());
            process.dropTasks();
            disown(process);
        }
        if (random.nextInt(3) == 0) {
            process.watchAlarms();
        }
        if (process.wantsCommit() && random.nextInt(4) != 0) {
            commit(process);
        }
        if (process.failing) {
            say(process.name + " ends, as its engine has failed");
            process.stop();
            disown(process);
        }
    }

    private void commit(@Nullable Process process) {
        if (process == null) {
            return;
        }
        boolean accepted = process.commit();
        cancellations.committed();
        say(process.name + " commit" + (accepted ? "" : " refused"));
        if (!accepted) {
            disown(process);
        }
    }

    private void disown(Process process) {
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            if (owners[partition] == process) {
                owners[partition] = null;
            }
        }
    }

    /// Gives a partition to a process; it may find the log's state diverged, or its audit topic out of reach.
    private void open(int partition, Process process) {
        if (world.broker.isUnsettled(partition)) {
            return;
        }
        say(process.name + " takes " + partition);
        cancellations.opens(partition, invariants.pendingRequests(partition));
        int generation = world.broker.assign(partition);
        owners[partition] = process;
        try {
            process.open(partition, generation);
        } catch (World.Injected e) {
            say(process.name + " cannot open " + partition + ": " + e.getMessage());
            process.dropTasks();
            disown(process);
        } catch (RuntimeException e) {
            // Until the new epoch has its first leaf it has to be said at each start.
            boolean lost = stateLost[partition] && world.broker.changelog("tlog", partition).settled().isEmpty();
            if (!lost || !String.valueOf(e.getMessage()).startsWith("LOG_STATE_DIVERGED")) {
                throw new Violation("I3", "partition " + partition + " cannot be opened: " + e.getMessage(), e);
            }
            say(process.name + " refuses " + partition + ", and is told to begin a new epoch");
            process.dropTasks();
            disown(process);
            process.crash();
            process.start(Map.of("audit.epoch.new", "true"));
            open(partition, process);
        }
    }

    private void fault() {
        switch (random.nextInt(27)) {
            case 0, 1 -> crash();
            case 2 -> sleep();
            case 3, 4 -> wakeOrRestart();
            case 5, 6 -> steal();
            case 7 -> processes.stream().filter(p -> p.asleep && p.expireTransaction())
                    .forEach(p -> say("transaction of " + p.name + " expires"));
            case 8 -> move();
            case 9, 10 -> assignOne();
            case 11 -> revive();
            case 12 -> {
                registryFailed = true;
                say(world.turnRegistry());
            }
            case 13, 14 -> mishap();
            case 15 -> jump();
            case 16 -> say(world.delayTails());
            case 17 -> say(world.failSends());
            case 18 -> loseState();
            case 19, 20 -> damage();
            case 23, 24 -> takeAway();
            case 21, 22 -> scrub();
            case 25 -> rotateKey();
            default -> failEngine();
        }
    }

    private void crash() {
        Process process = processes.get(random.nextInt(PROCESSES));
        if (process.isUp()) {
            say(process.name + " crashes");
            process.crash();
            disown(process);
            invariants.checkCommitted();
        }
    }

    /// Everybody is started anew with another key, which the logs are to name.
    private void rotateKey() {
        if (world.rotateKey()) {
            say("the key is rotated");
            for (Process process : processes) {
                disown(process);
                process.restart();
            }
        }
    }

    private void sleep() {
        Process process = awake();
        if (process != null) {
            say(process.fallAsleep());
        }
    }

    private void wakeOrRestart() {
        for (Process process : processes) {
            if (!process.isUp()) {
                say(process.name + " starts");
                process.start();
            } else if (process.asleep) {
                say(process.name + " wakes up");
                process.asleep = false;
            }
        }
    }

    /// The broker takes a sleeper for dead and gives what it owns to the other.
    private void steal() {
        Process thief = awake();
        Process sleeper = processes.stream().filter(p -> p.asleep).findFirst().orElse(null);
        if (thief != null && sleeper != null) {
            for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
                if (owners[partition] == sleeper) {
                    open(partition, thief);
                }
            }
        }
    }

    /// A process works, is thought dead, and has its partitions back after another has worked on them.
    private void takeAway() {
        Process loser = awake();
        if (loser == null) {
            return;
        }
        if (random.nextInt(3) == 0) {
            say(loser.name + " weights are damaged");
            loser.engine().damage();
            alarming = true;
        }
        work(loser);
        commit(loser);
        work(loser);
        say(loser.name + " is thought dead");
        loser.asleep = true;
        loser.expireTransaction();
        Process other = awake();
        steal();
        if (other != null) {
            work(other);
            commit(other);
        }
        loser.asleep = false;
        commit(loser);
        for (int partition = 0; other != null && partition < Broker.PARTITIONS; partition++) {
            if (owners[partition] == other && loser.isAwake() && other.isAwake() && other.release(partition)) {
                open(partition, loser);
            }
        }
    }

    private void work(Process process) {
        round(process);
        if (process.isUp()) {
            process.engine().step(random, 4);
        }
        round(process);
    }

    private void move() {
        Process to = awake();
        int partition = random.nextInt(Broker.PARTITIONS);
        Process from = owners[partition];
        if (to != null && from != null && from != to && from.isAwake()) {
            say(from.name + " gives " + partition + " up");
            if (from.release(partition)) {
                open(partition, to);
            } else {
                disown(from);
            }
        }
    }

    private void assignOne() {
        Process process = awake();
        if (process != null) {
            IntStream.range(0, Broker.PARTITIONS).filter(p -> owners[p] == null).findFirst().ifPresent(p -> open(p, process));
        }
    }

    private void revive() {
        Process process = awake();
        if (process != null) {
            say(process.name + " begins its tasks anew");
            if (!process.revive()) {
                disown(process);
            }
        }
    }

    private void mishap() {
        Process process = awake();
        Mishap what = Mishap.values()[1 + random.nextInt(Mishap.values().length - 1)];
        if (process != null && process.engine().happen(what, random)) {
            enginesFailedPrompts |= what == Mishap.NOT_A_NUMBER || what == Mishap.OUT_OF_MEMORY;
            alarming |= what != Mishap.HANGS;
            say(process.name + " engine: " + what);
        }
    }

    private void jump() {
        long skew = (random.nextInt(5) - 2) * (DAY_MS / 2) + random.nextInt(1_000);
        world.skew(skew);
        say("wall clock is off by " + skew + " ms");
    }

    /// The store of a log is gone while nobody has it open.
    private void loseState() {
        int partition = random.nextInt(Broker.PARTITIONS);
        List<Broker.Placed> leaves = world.broker.log(TopologyParts.AUDIT, partition).committed();
        if (random.nextInt(4) == 0 && owners[partition] == null && !world.broker.isUnsettled(partition) && !leaves.isEmpty()
                && !world.isRecent(leaves.getLast().entry())) {
            say("state of log " + partition + " is lost");
            world.broker.changelog("tlog", partition).entries.clear();
            stateLost[partition] = true;
        }
    }

    private void damage() {
        Process process = awake();
        if (process != null) {
            say(process.name + " weights are damaged");
            process.engine().damage();
            alarming = true;
        }
    }

    private void scrub() {
        for (Process process : processes.stream().filter(Process::isAwake).toList()) {
            if (random.nextBoolean()) {
                // A step right before it, so that results of damaged weights wait to be handed on.
                say(process.name + " engine steps, and checks its weights");
                process.engine().step(random, 2);
                process.engine().scrub();
            }
            if (random.nextBoolean()) {
                boolean works = random.nextInt(5) != 0;
                say(process.name + (works ? " repairs its weights" : " cannot repair its weights"));
                process.engine().mend(works);
            }
        }
    }

    private void failEngine() {
        Process process = awake();
        if (process != null && random.nextInt(2) == 0) {
            alarming = true;
            say(process.name + " engine fails");
            process.engine().fail("the step thread died");
        }
    }

    /// Heals everything, and runs until nothing is left to do.
    private void settle() {
        say("all is healed");
        world.registryDown = false;
        world.staleTails = 0;
        world.brokenTails = 0;
        world.sendsUntilFailure = -1;
        int calm = 0;
        for (int i = 0; i < SETTLING_ROUNDS && calm < CALM_ROUNDS; i++) {
            wakeOrRestart();
            for (Process process : processes) {
                process.engine().heal();
                process.engine().scrub();
                process.engine().mend(true);
                round(process);
            }
            for (Process process : processes) {
                if (process.isUp()) {
                    commit(process);
                    process.engine().step(random, 50);
                }
            }
            assignOne();
            world.pass(600);
            calm = Leftovers.none(world, owners) ? calm + 1 : 0;
        }
        if (calm == 0) {
            throw new Violation("I1", "prompts are left over although everything is healed: " + Leftovers.tell(world, owners, processes), null);
        }
        processes.forEach(this::commit);
        processes.forEach(Process::watchAlarms);
    }

    List<Process> processes() {
        return processes;
    }

    /// The life that owns a partition now.
    String owner(int partition) {
        Process owner = owners[partition];
        return owner == null ? "" : owner.instance();
    }

    Invariants invariants() {
        return invariants;
    }

    /// What a prompt's client calls it by, or null.
    @Nullable String request(int partition, long offset) {
        Inputs.Named named = byPartition.get(partition).get((int) offset).named();
        return named == null ? null : Cancellations.request(named.tenant(), named.requestId());
    }

    /// Whether what becomes of this prompt depends on when it was read.
    boolean clockDecides(int partition, long offset) {
        return byPartition.get(partition).get((int) offset).clockDecides();
    }
}
