;; attack: calls without number
;; expect: admission refused: calls is
;; generate: calls results=0 count=400000
