;; attack: ends right after it began
;; expect: admission refused: not a valid component
;; generate: truncated percent=1
