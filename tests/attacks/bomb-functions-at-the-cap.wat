;; attack: as many functions as may be, and every one to be compiled
;; expect: replied done
;; generate: functions count=29900
