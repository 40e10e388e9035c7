package millrace.streams;

import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FinalizedVersionRange;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.StreamsConfig;

/// How the instances of one application id share its partitions.
///
/// `classic`: static members. A restart within the session keeps its partitions; an instance that was killed holds them
/// until it is back or the session ends.
///
/// `streams`: the broker assigns. Members are dynamic, since the id of a static one that was killed is not free before its
/// session has ended, and what the broker decides (standbys, session, heartbeats) is configured there, for the group.
final class GroupProtocol {
    static final String KEY = "group.protocol";
    static final String CLASSIC = "classic";
    static final String STREAMS = "streams";
    static final String STANDBYS = "standby.replicas";

    /// What the members of a streams group cannot say of themselves, and the group's setting that says it.
    private static final List<String> OF_THE_GROUP = List.of("num.standby.replicas", "session.timeout.ms", "heartbeat.interval.ms");

    private GroupProtocol() {}

    private static boolean isStreams(ServiceConfig config) {
        return config.string(KEY).equals(STREAMS);
    }

    /// @throws ConfigException if something is configured that the protocol has no place for
    static void check(ServiceConfig config) {
        if (!isStreams(config)) {
            return;
        }
        if (config.integer(STANDBYS) > 0) {
            throw ofTheGroup(STANDBYS, "num.standby.replicas", config);
        }
        for (String key : config.kafka().keySet()) {
            for (String setting : OF_THE_GROUP) {
                if (key.equals(setting) || key.endsWith("." + setting)) {
                    throw ofTheGroup(ServiceConfig.KAFKA_PREFIX + key, setting, config);
                }
            }
            if (key.endsWith(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG)) {
                throw new ConfigException("config key \"" + ServiceConfig.KAFKA_PREFIX + key + "\": expected none with " + KEY + "=" + STREAMS
                        + ": the id of a member that was killed is not free before its session has ended; leave it out");
            }
        }
    }

    private static ConfigException ofTheGroup(String key, String setting, ServiceConfig config) {
        return new ConfigException("config key \"" + key + "\": expected none with " + KEY + "=" + STREAMS + ", where the broker decides; set "
                + "streams." + setting + " of the group " + config.string("application.id")
                + " instead (kafka-configs --entity-type groups), or take " + KEY + "=" + CLASSIC);
    }

    /// Asks the cluster whether it speaks the protocol.
    ///
    /// @throws IllegalStateException if it does not
    static void require(ServiceConfig config, Admin admin) {
        if (!isStreams(config)) {
            return;
        }
        try {
            FinalizedVersionRange range = admin.describeFeatures().featureMetadata().get().finalizedFeatures().get("streams.version");
            if (range == null || range.maxVersionLevel() < 1) {
                throw new IllegalStateException(KEY + ": expected a cluster with the feature streams.version 1, got "
                        + (range == null ? "none" : String.valueOf(range.maxVersionLevel()))
                        + "; upgrade it (kafka-features upgrade --feature streams.version=1), or take " + KEY + "=" + CLASSIC);
            }
        } catch (ExecutionException e) {
            throw new IllegalStateException(KEY + ": the cluster did not say what it supports (" + e.getCause().getMessage() + ")", e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while asking the cluster", e);
        }
    }

    static void configure(Properties properties, ServiceConfig config, String instanceId, WakeableClients clients) {
        properties.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, config.string(KEY));
        if (isStreams(config)) {
            properties.put("__internal.consumer.wrapper__", WakeableClients.Wrapper.class);
            properties.put(StreamsConfig.mainConsumerPrefix(WakeableClients.Wrapper.CLIENTS), clients);
        } else {
            properties.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, config.integer(STANDBYS));
            // A restart within the session keeps its tasks, instead of 45 s without an owner.
            properties.put(StreamsConfig.mainConsumerPrefix(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG), instanceId);
        }
    }

    /// What an instance that stops does with its partitions.
    static CloseOptions atStop(ServiceConfig config) {
        return CloseOptions.groupMembershipOperation(config.flag("shutdown.leave")
                ? GroupMembershipOperation.LEAVE_GROUP
                : GroupMembershipOperation.REMAIN_IN_GROUP);
    }

    /// What one does that comes back at once: a static member is known when it does, a dynamic one would wait for its own
    /// old membership.
    static CloseOptions beforeRestart(ServiceConfig config) {
        return CloseOptions.groupMembershipOperation(isStreams(config)
                ? GroupMembershipOperation.LEAVE_GROUP
                : GroupMembershipOperation.REMAIN_IN_GROUP);
    }
}
