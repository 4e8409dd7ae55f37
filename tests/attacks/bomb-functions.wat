;; attack: 50,000 tiny functions
;; expect: admission refused: the number of functions is
;; generate: functions count=50000
