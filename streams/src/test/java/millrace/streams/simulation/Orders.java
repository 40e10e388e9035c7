package millrace.streams.simulation;

import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import millrace.schemas.AttestationRecord;
import millrace.schemas.Control;
import millrace.schemas.ControlKind;
import millrace.streams.TopologyParts;

/// What an operator orders: to erase, to retract, to begin a new epoch, what must be refused, and bytes that are no order.
final class Orders {
    private final World world;
    private final Set<Broker.Entry> readable = Collections.newSetFromMap(new IdentityHashMap<>());

    Orders(World world) {
        this.world = world;
    }

    /// Gives an order to a log that has leaves.
    ///
    /// @return what was done, if it has any
    Optional<String> give(int partition) {
        List<Broker.Placed> leaves = world.broker.log(TopologyParts.AUDIT, partition).committed();
        if (leaves.isEmpty()) {
            return Optional.empty();
        }
        AttestationRecord last = TopologyParts.leaf(leaves.getLast().entry().value());
        long to = world.random.nextLong(last.getSeq() + 1);
        long from = world.random.nextLong(to + 1);
        Control.Builder order = Control.newBuilder().setIssuedMs(world.clock.millis()).setOrigin(last.getLogOrigin());
        int roll = world.random.nextInt(12);
        byte[] value = switch (roll) {
            case 0, 1, 2 -> TopologyParts.encode(order.setKind(ControlKind.RETRACT).setFromSeq(from).setToSeq(to)
                    .setReason("OPERATOR").build());
            case 3, 4, 5 -> TopologyParts.encode(order.setKind(ControlKind.ERASE_REQUEST).setFromSeq(to).setToSeq(to)
                    .setRequestId("r-" + to).build());
            case 6, 7 -> TopologyParts.encode(order.setKind(ControlKind.ERASE_TENANT).setOrigin("").setTenant("").build());
            case 8 -> TopologyParts.encode(order.setKind(ControlKind.RETRACT).setFromSeq(to).setToSeq(last.getSeq() + 1_000_000)
                    .setReason("OPERATOR").build());
            case 9, 10 -> TopologyParts.encode(order.setKind(ControlKind.NEW_EPOCH).setReason("OPERATOR").build());
            default -> new byte[] {9, 9, 9};
        };
        Broker.Entry entry = new Broker.Entry(null, value, null, world.clock.millis(), null);
        if (roll < 11) {
            readable.add(entry);
        }
        world.broker.log(TopologyParts.CONTROL, partition).append(entry);
        return Optional.of("order " + roll + " for " + partition);
    }

    /// Whether it was an order, and not bytes that nobody can read.
    boolean isOrder(Broker.Entry entry) {
        return readable.contains(entry);
    }
}
