package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class WakeableClientsTest {
    private static final TopicPartition P0 = new TopicPartition("llm.prompts", 0);
    private static final TopicPartition P1 = new TopicPartition("llm.prompts", 1);
    private static final Duration LONG = Duration.ofMillis(100);

    private final Object task = new Object();
    private final FakeConsumer real = new FakeConsumer();
    private final WakeableClients clients = new WakeableClients();
    private Consumer<byte[], byte[]> consumer;
    private WakeableClients.Poll poll;

    /// Kafka's own fake, with the times that poll was given, and what it does while it polls.
    private static final class FakeConsumer extends MockConsumer<byte[], byte[]> {
        Duration lastTimeout = Duration.ZERO;
        int polls;
        Runnable duringPoll = () -> {};
        boolean wakeupPending;
        boolean deaf;

        FakeConsumer() {
            super("earliest");
        }

        @Override
        public ConsumerRecords<byte[], byte[]> poll(Duration timeout) {
            polls++;
            lastTimeout = timeout;
            duringPoll.run();
            if (wakeupPending && !deaf) {
                wakeupPending = false;
                throw new WakeupException();
            }
            deaf = false;
            return super.poll(timeout);
        }

        @Override
        public void wakeup() {
            wakeupPending = true;
        }

        void record(TopicPartition at, long offset) {
            addRecord(new ConsumerRecord<>(at.topic(), at.partition(), offset, null, new byte[0]));
        }
    }

    @BeforeEach
    void assign() {
        consumer = clients.wrap(real, Thread.currentThread().getName() + "-consumer");
        poll = clients.ofCurrentThread();
        real.assign(List.of(P0, P1));
        real.updateBeginningOffsets(Map.of(P0, 0L, P1, 0L));
        real.poll(Duration.ZERO);
        real.polls = 0;
    }

    @Test
    void passesEverythingElseThrough() {
        assertThat(consumer.assignment()).containsExactlyInAnyOrder(P0, P1);
        real.record(P0, 0);
        assertThat(consumer.poll(LONG).count()).isEqualTo(1);
        assertThat(real.lastTimeout).isEqualTo(LONG);
        assertThat(consumer.position(P0)).isEqualTo(1);
    }

    @Test
    void endsTheRunningPollOnASignalAndThrowsNothing() {
        real.duringPoll = poll::signal;
        assertThatCode(() -> assertThat(consumer.poll(LONG).isEmpty()).isTrue()).doesNotThrowAnyException();
        assertThat(real.wakeupPending).isFalse();
        real.duringPoll = () -> {};
        goOnUntilTimersAreDue();
        consumer.poll(LONG);
        assertThat(real.lastTimeout).as("the signal is used up").isEqualTo(LONG);
    }

    @Test
    void doesNotLoseASignalThatComesBetweenTwoPolls() {
        poll.signal();
        assertThat(real.wakeupPending).as("outside poll a wake-up would hit a commit").isFalse();
        consumer.poll(LONG);
        assertThat(real.lastTimeout).isZero();
        goOnUntilTimersAreDue();
        consumer.poll(LONG);
        assertThat(real.lastTimeout).isEqualTo(LONG);
    }

    @Test
    void doesNotSleepBeforeTimersWereDueAfterASignal() {
        poll.signal();
        consumer.poll(LONG);
        consumer.poll(LONG);
        assertThat(real.lastTimeout).as("the turn before this poll may have come too soon for the timers").isLessThanOrEqualTo(
                WakeableClients.TICK);
        goOnUntilTimersAreDue();
        real.duringPoll = poll::signal;
        consumer.poll(LONG);
        real.duringPoll = () -> {};
        consumer.poll(LONG);
        assertThat(real.lastTimeout).isLessThanOrEqualTo(WakeableClients.TICK);
    }

    /// As Streams does: poll after poll, each with a look at the timers behind it.
    private void goOnUntilTimersAreDue() {
        long due = System.nanoTime() + 2 * WakeableClients.TICK.toNanos();
        while (System.nanoTime() < due) {
            consumer.poll(LONG);
        }
        consumer.poll(LONG);
    }

    @Test
    void takesOutAWakeupThatCameTooLateAndKeepsEveryRecord() {
        real.record(P0, 0);
        real.record(P1, 0);
        real.duringPoll = () -> {
            real.duringPoll = () -> {};
            real.deaf = true;
            poll.signal();
        };
        assertThat(consumer.poll(LONG).count()).isEqualTo(2);
        assertThat(real.polls).isEqualTo(2);
        assertThat(real.wakeupPending).as("it would hit the next commit").isFalse();
    }

    @Test
    void mergesTheRecordsOfThePollThatTakesTheWakeupOut() {
        real.record(P0, 0);
        real.duringPoll = () -> {
            real.deaf = true;
            if (real.polls == 1) {
                poll.signal();
            } else {
                real.wakeupPending = false;
                real.record(P0, 1);
                real.record(P1, 0);
            }
        };
        ConsumerRecords<byte[], byte[]> records = consumer.poll(LONG);
        assertThat(records.records(P0)).extracting(ConsumerRecord::offset).containsExactly(0L, 1L);
        assertThat(records.records(P1)).extracting(ConsumerRecord::offset).containsExactly(0L);
        assertThat(records.nextOffsets().get(P0).offset()).isEqualTo(2);
        assertThat(records.nextOffsets().get(P1).offset()).isEqualTo(1);
    }

    @Test
    void wakesAPollOfAnotherThread() throws Exception {
        CountDownLatch polling = new CountDownLatch(1);
        CountDownLatch signalled = new CountDownLatch(1);
        real.duringPoll = () -> {
            polling.countDown();
            try {
                signalled.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        };
        Thread engine = Thread.ofVirtual().start(() -> {
            try {
                polling.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            poll.signal();
            signalled.countDown();
        });
        assertThat(consumer.poll(LONG).isEmpty()).isTrue();
        engine.join();
        assertThat(real.wakeupPending).isFalse();
    }

    @Test
    void shortensThePollToTheDeadlineButNeverLengthensIt() {
        poll.deadline(System.nanoTime() + Duration.ofMillis(5).toNanos());
        consumer.poll(LONG);
        assertThat(real.lastTimeout).isLessThanOrEqualTo(Duration.ofMillis(5));
        poll.deadline(System.nanoTime() - 1);
        consumer.poll(LONG);
        assertThat(real.lastTimeout).isZero();
        poll.deadline(System.nanoTime() + Duration.ofSeconds(9).toNanos());
        consumer.poll(LONG);
        assertThat(real.lastTimeout).isEqualTo(LONG);
        poll.deadline(0);
        consumer.poll(LONG);
        assertThat(real.lastTimeout).isEqualTo(LONG);
    }

    @Test
    void holdsEveryPartitionBackWhileAnyTaskWantsIt() {
        Object other = new Object();
        poll.hold(task, true);
        poll.hold(other, true);
        consumer.poll(LONG);
        assertThat(real.paused()).containsExactlyInAnyOrder(P0, P1);
        poll.hold(task, false);
        consumer.poll(LONG);
        assertThat(real.paused()).containsExactlyInAnyOrder(P0, P1);
        poll.hold(other, false);
        consumer.poll(LONG);
        assertThat(real.paused()).isEmpty();
    }

    @Test
    void doesNotResumeWhatKafkaStreamsPaused() {
        consumer.pause(Set.of(P0));
        poll.hold(task, true);
        consumer.poll(LONG);
        poll.hold(task, false);
        consumer.poll(LONG);
        assertThat(real.paused()).containsExactly(P0);
        consumer.resume(Set.of(P0));
        assertThat(real.paused()).isEmpty();
    }

    @Test
    void doesNotLetKafkaStreamsResumeWhatIsHeldBack() {
        consumer.pause(Set.of(P0));
        poll.hold(task, true);
        consumer.poll(LONG);
        consumer.resume(Set.of(P0));
        assertThat(real.paused()).containsExactlyInAnyOrder(P0, P1);
        poll.hold(task, false);
        consumer.poll(LONG);
        assertThat(real.paused()).as("resumed when it is no longer held back").isEmpty();
    }

    @Test
    void keepsAPauseOfKafkaStreamsThatBeganWhileHeldBack() {
        poll.hold(task, true);
        consumer.poll(LONG);
        consumer.pause(Set.of(P1));
        poll.hold(task, false);
        consumer.poll(LONG);
        assertThat(real.paused()).containsExactly(P1);
    }

    @Test
    void forgetsThePauseOfAPartitionThatWasTakenAwayAndGivenBack() {
        consumer.pause(Set.of(P0));
        // As Kafka's consumer does: a partition that was given back is not paused.
        real.resume(Set.of(P0));
        real.assign(List.of(P1));
        consumer.poll(LONG);
        real.assign(List.of(P0, P1));
        poll.hold(task, true);
        consumer.poll(LONG);
        assertThat(real.paused()).containsExactlyInAnyOrder(P0, P1);
        poll.hold(task, false);
        consumer.poll(LONG);
        assertThat(real.paused()).isEmpty();
    }

    @Test
    void holdsForGoodOnceItStops() {
        clients.holdAll();
        poll.hold(task, false);
        consumer.poll(LONG);
        assertThat(real.lastTimeout).isZero();
        consumer.poll(LONG);
        assertThat(real.paused()).containsExactlyInAnyOrder(P0, P1);
    }

    @Test
    void neverHoldsBackTheTopicsThatItWasToldOf() {
        TopicPartition orders = new TopicPartition("llm.control", 0);
        WakeableClients some = new WakeableClients(Set.of("llm.control"));
        Consumer<byte[], byte[]> both = some.wrap(real, "thread-consumer");
        real.assign(List.of(P0, orders));
        real.updateBeginningOffsets(Map.of(orders, 0L));
        some.holdAll();
        both.poll(LONG);
        both.poll(LONG);
        assertThat(real.paused()).containsExactly(P0);
        both.pause(Set.of(P0, orders));
        both.resume(Set.of(P0, orders));
        assertThat(real.paused()).as("Kafka Streams may resume those").containsExactly(P0);
    }
}
