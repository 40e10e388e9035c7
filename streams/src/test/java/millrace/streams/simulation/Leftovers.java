package millrace.streams.simulation;

import java.util.List;
import millrace.streams.TopologyParts;
import org.jspecify.annotations.Nullable;

/// Who has what left to do, for a person who looks for the reason.
final class Leftovers {
    private Leftovers() {}

    /// Whether everything was read, and nothing is pending.
    static boolean none(World world, @Nullable Process[] owners) {
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            Process owner = owners[partition];
            Task task = owner == null ? null : owner.tasks().get(partition);
            boolean unread = world.broker.committedOffset(partition) < size(world, TopologyParts.PROMPTS, partition)
                    || world.broker.committedOrders(partition) < size(world, TopologyParts.CONTROL, partition)
                    || world.broker.committedCancels(partition) < size(world, TopologyParts.CANCELS, partition);
            if (task == null || task.pending() > 0 || unread) {
                return false;
            }
        }
        return true;
    }

    private static int size(World world, String topic, int partition) {
        return world.broker.log(topic, partition).entries.size();
    }

    static String tell(World world, @Nullable Process[] owners, List<Process> processes) {
        StringBuilder text = new StringBuilder();
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            Process owner = owners[partition];
            Task task = owner == null ? null : owner.tasks().get(partition);
            text.append(partition).append(": ").append(owner == null ? "nobody" : owner.name).append(task == null ? " without a task"
                    : " pending " + task.pending()).append(", read ").append(world.broker.committedOffset(partition)).append(" of ")
                    .append(world.broker.log(TopologyParts.PROMPTS, partition).entries.size()).append(", orders ")
                    .append(world.broker.committedOrders(partition)).append(" of ")
                    .append(world.broker.log(TopologyParts.CONTROL, partition).entries.size()).append(", cancellations ")
                    .append(world.broker.committedCancels(partition)).append(" of ")
                    .append(world.broker.log(TopologyParts.CANCELS, partition).entries.size()).append("; ");
        }
        for (Process process : processes) {
            text.append(process.name).append(process.isUp() ? " load " + process.engine().load() : " down")
                    .append(process.isUp() && !process.engine().admitting() ? ", admits nothing" : "")
                    .append(process.holdsPrompts() ? ", holds" : "").append("; ");
        }
        return text.toString();
    }
}
