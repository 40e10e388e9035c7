package millrace.engine;

/// Products of integers that were computed a second time: they are exact, so that one that differs is wrong.
public interface Products {
    /// Where there are no such products, or nobody looks at them.
    Products NONE = new Products() {
        @Override
        public long checked() {
            return 0;
        }

        @Override
        public long takeWrong() {
            return 0;
        }
    };

    /// How many were computed a second time; of operations that have ended.
    long checked();

    /// How many of them differed since this was asked last.
    long takeWrong();
}
