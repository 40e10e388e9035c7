package millrace.engine.batch;

import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityLedger;
import millrace.engine.Products;

/// What a step is worth in which a product of integers was wrong: nothing.
///
/// ```
///  the first time                                the step is dropped, and all sequences are computed again
///  the next step again                           the same, after a look at all weights and pages
///  and once more                                 the engine refuses
/// ```
final class ProductWatch {
    private static final String CODE = "ENGINE_PRODUCT";
    private static final int MOST_IN_A_ROW = 3;

    private final Products products;
    private final IntegrityLedger ledger;
    private final Roster roster;
    private final Runnable inspect;
    private long seen;
    private int inARow;

    /// @param inspect looks at all weights and pages
    ProductWatch(Products products, IntegrityLedger ledger, Roster roster, Runnable inspect) {
        this.products = products;
        this.ledger = ledger;
        this.roster = roster;
        this.inspect = inspect;
    }

    /// After a step.
    ///
    /// @return whether it may be handed out; else its sequences are taken care of
    boolean accept(long step, StepPlan plan, Sequence[] planned) {
        long wrong = products.takeWrong();
        long checked = products.checked();
        if (wrong == 0) {
            if (checked != seen) {
                inARow = 0;
                for (int s = 0; s < plan.segmentCount(); s++) {
                    planned[s].productsChecked = true;
                }
            }
            seen = checked;
            return true;
        }
        seen = checked;
        inARow++;
        boolean repairable = inARow < MOST_IN_A_ROW;
        ledger.post(
                IntegrityEvent.Kind.COMPUTE,
                repairable ? IntegrityEvent.Result.REPAIRED : IntegrityEvent.Result.REFUSED,
                CODE,
                "check=product wrong=" + wrong + " step=" + step + " time=" + inARow);
        if (repairable) {
            roster.repairs++;
            roster.distrust(step);
            if (inARow > 1) {
                inspect.run();
            }
        } else {
            String reason = "products of integers: expected those of a second computation, got " + wrong
                    + " others in step " + step + ", three times in a row; test or replace this machine";
            ledger.refuse(reason);
            roster.failAll(CODE, reason);
        }
        return false;
    }
}
