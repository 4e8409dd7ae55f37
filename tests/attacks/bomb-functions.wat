;; attack: functions beyond number
;; expect: admission refused: the number of functions is
;; generate: functions count=60000
