;; attack: ends in the middle
;; expect: admission refused: not a valid component
;; generate: truncated percent=50
