;; attack: segments of a million elements
;; expect: admission refused: elements of tables
;; generate: elements segments=4 items=1000000
